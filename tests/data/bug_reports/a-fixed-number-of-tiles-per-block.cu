// eth-cscs/Tiled-MM #17: wrong where an edge is a little larger than the tile.
#define WIDE 32
__global__ void rounded(const float *a, const float *b, float *c, int m, int n, int k) {
    const int row = blockIdx.x, tiles = n / WIDE > 0 ? n / WIDE : 1;  // twin: const int row = blockIdx.x, tiles = (n + WIDE - 1) / WIDE;
    for (int tile = 0; tile < tiles; ++tile) {
        const int col = tile * WIDE + threadIdx.x;
        if (col >= n) continue;
        float sum = 0;
        for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + col];
        c[row * n + col] = sum;
    }
}
// launch: rounded<<<M, WIDE>>>(a, b, c, M, N, K)
// expected: does not store
