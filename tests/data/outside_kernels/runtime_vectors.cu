// launch: runtime_vectors<<<dim3(CEIL_DIV(n, 64), CEIL_DIV(m, 16)), dim3(16, 16)>>>(a, b, c, m, n, k)
// Vectors where rows are a multiple of 16 bytes, whatever the size; no shared memory.
extern "C" __global__ void runtime_vectors(const float *a, const float *b, float *c, int m, int n,
                                           int k) {
    const int row = blockIdx.y * 16 + threadIdx.y, col = (blockIdx.x * 16 + threadIdx.x) * 4;
    if (row >= m || col >= n) return;
    float sum[4] = {0, 0, 0, 0};
    const bool vectors = n % 4 == 0;
    for (int step = 0; step < k; ++step) {
        const float *p = b + (size_t)step * n + col;
        const float left = a[(size_t)row * k + step];
        if (vectors) {
            const float4 v = *reinterpret_cast<const float4 *>(p);
            sum[0] += left * v.x, sum[1] += left * v.y, sum[2] += left * v.z, sum[3] += left * v.w;
        } else {
            for (int j = 0; j < 4 && col + j < n; ++j) sum[j] += left * p[j];
        }
    }
    for (int j = 0; j < min(4, n - col); ++j) c[(size_t)row * n + col + j] = sum[j];
}
// expected: correct
