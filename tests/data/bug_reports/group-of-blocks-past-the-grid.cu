// ROCm/FlyDSL #979: groups of eight rows of blocks, though eight need not divide their number.
__global__ void grouped(const float *a, const float *b, float *c, int m, int n, int k) {
    const int down = (m + 15) / 16, across = (n + 15) / 16;
    const int group = blockIdx.x / (8 * across), first = group * 8;
    const int height = 8;  // twin: const int height = min(8, down - first);
    const int by = first + blockIdx.x % (8 * across) % height, bx = blockIdx.x % (8 * across) / height;
    const int row = by * 16 + threadIdx.y, col = bx * 16 + threadIdx.x;
    if (row >= m || col >= n || by >= down) return;
    float sum = 0;
    for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + col];
    c[row * n + col] = sum;
}
// launch: grouped<<<CEIL_DIV(M, 16) * CEIL_DIV(N, 16), dim3(16, 16)>>>(a, b, c, M, N, K)
// expected: :11:.*does not store
