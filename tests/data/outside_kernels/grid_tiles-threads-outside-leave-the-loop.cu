// launch: grid_tiles<<<dim3(CEIL_DIV(n, 64), CEIL_DIV(m, 64)), dim3(16, 16)>>>(A, B, C, m, n, k)
// Tiles of 16 by 16, four by four of which a block computes in a loop over its grid's stride.
#define FOR_TILES(v, extent) for (int v = blockIdx.v * 16; v < (extent); v += 16 * gridDim.v)
extern "C" __global__ void grid_tiles(const float *A, const float *B, float *C, int M, int N, int K) {
    __shared__ volatile float U[16][17];
    __shared__ volatile float V[16][17];
    FOR_TILES(y, M) FOR_TILES(x, N) {
        const int i = y + threadIdx.y, j = x + threadIdx.x;
        if (i >= M) break;
        float w = 0;
        for (int p = 0; p < K; p += 16) {
            U[threadIdx.y][threadIdx.x] = i < M && p + threadIdx.x < K ? A[i * K + p + threadIdx.x] : 0;
            V[threadIdx.y][threadIdx.x] = p + threadIdx.y < K && j < N ? B[(p + threadIdx.y) * N + j] : 0;
            __syncthreads();
            for (int q = 0; q < 16; q++) w += U[threadIdx.y][q] * V[q][threadIdx.x];
            __syncthreads();
        }
        if (i < M && j < N) C[i * N + j] = w;
    }
}
// expected: :(?:18): .*(?:elements wrong)
