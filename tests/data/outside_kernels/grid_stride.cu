// launch: grid_stride<<<dim3(CEIL_DIV(n, 16), CEIL_DIV(n, 16)), dim3(16, 16)>>>(a, b, c, n)
extern "C" __global__ void grid_stride(const float *a, const float *b, float *c, int n) {
    const float *const end = a + (long)n * n;
    for (int i = blockIdx.y * blockDim.y + threadIdx.y; i < n; i += gridDim.y * blockDim.y)
        for (int j = blockIdx.x * blockDim.x + threadIdx.x; j < n; j += gridDim.x * blockDim.x) {
            float sum = 0.0f;
            const float *p = a + (long)i * n, *q = b + j;
            do {
                sum += *p * *q;
                q += n;
            } while (++p < a + (long)(i + 1) * n && p < end);
            c[(long)i * n + j] = sum;
        }
}
// expected: correct
