// NVIDIA/cutlass #49: rows of B are read as vectors of two, which are misaligned where N is odd.
__global__ void vectors(const float *a, const float *b, float *c, int M, int N, int K) {
    const int row = blockIdx.y * 16 + threadIdx.y, col = 2 * (blockIdx.x * 16 + threadIdx.x);
    if (row >= M || col >= N) return;
    float2 sum = {0, 0};
    for (int k = 0; k < K; ++k) {
        const float x = a[row * K + k];
        const float2 y = reinterpret_cast<const float2 *>(b)[(k * N + col) / 2];  // twin: const float2 y = {b[k * N + col], col + 1 < N ? b[k * N + col + 1] : 0};
        sum.x += x * y.x, sum.y += x * y.y;
    }
    c[row * N + col] = sum.x;
    if (col + 1 < N) c[row * N + col + 1] = sum.y;
}
// launch: vectors<<<dim3(CEIL_DIV(N, 32), CEIL_DIV(M, 16)), dim3(16, 16)>>>(a, b, c, M, N, K)
// expected: multiples of 2|:8:.*|:11:.*elements wrong
