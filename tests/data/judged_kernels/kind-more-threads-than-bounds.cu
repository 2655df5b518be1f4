__global__ void __launch_bounds__(4 * 32) mine(const float *a, const float *b, float *c, int n) {
    const int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
    if (row >= n || col >= n) return;
    float sum = 0;
    for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + col];
    c[row * n + col] = sum;
}
// launch: mine<<<dim3(CEIL_DIV(N, 32), CEIL_DIV(N, 8)), dim3(32, 8)>>>(a, b, c, n)
// expected: __launch_bounds__\(128\), but its blocks have 256 threads
