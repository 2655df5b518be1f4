// try: tile=16x16 threads=16x16
extern "C" __global__ void grid_stride(const float *a, const float *b, float *c, int n) {
    const float *const end = a + (long)n * n;
    for (int i = blockIdx.y * blockDim.y + threadIdx.y; i < n; i += gridDim.y * blockDim.y)
        for (int j = blockIdx.x * blockDim.x + threadIdx.x; j < n; j += gridDim.x * blockDim.x) {
            float sum = 0.0f;
            const float *p = a + (long)i * n, *q = b + j;
            do {
                sum += *p * *q;
                q += n;
            } while (p++ < a + (long)(i + 1) * n);
            c[(long)i * n + j] = sum;
        }
}
// expected: :(?:9): .*(?:is out of bounds)
