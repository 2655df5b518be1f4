// Blocks take tiles from a queue; the last block to leave resets it for the next launch.
#define TILE 16
__device__ unsigned next_tile, blocks_done;
__global__ void queue_gemm(const float *A, const float *B, float *C, int M, int N, int K) {
    __shared__ unsigned tile;
    __shared__ float sa[TILE][TILE], sb[TILE][TILE];
    const unsigned across = (N + TILE - 1) / TILE, total = across * ((M + TILE - 1) / TILE);
    const int x = threadIdx.x, y = threadIdx.y;
    for (;;) {
        __syncthreads();
        if (x == 0 && y == 0) tile = atomicAdd(&next_tile, 1u);
        __syncthreads();
        const unsigned t = tile;
        if (t >= total) break;
        const int row = t / across * TILE + y, col = t % across * TILE + x;
        float s = 0;
        for (int k = 0; k < K; k += TILE) {
            sa[y][x] = row < M && k + x < K ? A[row * K + k + x] : 0;
            sb[y][x] = k + y < K && col < N ? B[(k + y) * N + col] : 0;
            __syncthreads();
            for (int i = 0; i < TILE; ++i) s += sa[y][i] * sb[i][x];
            __syncthreads();
        }
        if (row < M && col < N) C[row * N + col] = s;
    }
    if (x == 0 && y == 0 && atomicAdd(&blocks_done, 1u) == gridDim.x * gridDim.y - 1) {
        next_tile = 0;
        blocks_done = 0;
    }
}
// launch: queue_gemm<<<dim3(CEIL_DIV(N, 32), CEIL_DIV(M, 32)), dim3(16, 16)>>>(A, B, C, M, N, K)
// expected: correct
