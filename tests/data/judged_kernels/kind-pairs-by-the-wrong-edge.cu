__global__ void pairs(const float *A, const float *B, float *C, int m, int n, int k) {
    const int row = blockIdx.y * 16 + threadIdx.y, col = 2 * (blockIdx.x * 16 + threadIdx.x);
    if (row >= m) return;
    const bool even = k % 2 == 0 && col + 1 < n;  // twin: const bool even = n % 2 == 0 && col + 1 < n;
    float2 sum = make_float2(0, 0);
    for (int i = 0; i < k; ++i) {
        float2 y = make_float2(0, 0);
        if (even) y = *(const float2 *)(B + i * n + col);
        else if (col < n) y.x = B[i * n + col], y.y = col + 1 < n ? B[i * n + col + 1] : 0;
        sum.x += A[row * k + i] * y.x, sum.y += A[row * k + i] * y.y;
    }
    if (col < n) C[row * n + col] = sum.x;
    if (col + 1 < n) C[row * n + col + 1] = sum.y;
}
// launch: pairs<<<dim3(CEIL_DIV(N, 32), CEIL_DIV(M, 16)), dim3(16, 16)>>>(A, B, C, m, n, k)
// expected: :8:.*misaligned
