// A thread computes TM x TN elements; loads and stores are guarded.
template <int BM, int BN, int BK, int TM, int TN>
__global__ void __launch_bounds__((BM / TM) * (BN / TN))
register_tiles(int M, int N, int K, const float *A, const float *B, float *C) {
    __shared__ float sA[BK][BM], sB[BK][BN];
    constexpr int threads = (BM / TM) * (BN / TN);
    const int tid = threadIdx.x, tr = tid / (BN / TN), tc = tid % (BN / TN);
    const int rowBase = blockIdx.y * BM, colBase = blockIdx.x * BN;
    float acc[TM][TN] = {};
    float fa[TM], fb[TN];
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int i = tid; i < BM * BK; i += threads) {
            const int r = i / BK, k = i % BK;
            sA[k][r] = rowBase + r < M && k0 + k < K ? A[(rowBase + r) * K + k0 + k] : 0.f;
        }
        for (int i = tid; i < BK * BN; i += threads) {
            const int k = i / BN, c = i % BN;
            sB[k][c] = k0 + k < K && colBase + c < N ? B[(k0 + k) * N + colBase + c] : 0.f;
        }
        __syncthreads();
        for (int k = 0; k < BK; ++k) {
            for (int i = 0; i < TM; ++i) fa[i] = sA[k][tr * TM + i];
            for (int j = 0; j < TN; ++j) fb[j] = sB[k][tc * TN + j];
            for (int i = 0; i < TM; ++i)
                for (int j = 0; j < TN; ++j) acc[i][j] += fa[i] * fb[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < TM; ++i)
        for (int j = 0; j < TN; ++j) {
            const int r = rowBase + tr * TM + i, c = colBase + tc * TN + j;
            if (r < M && c < N) C[r * N + c] = acc[i][j];
        }
}
template __global__ void register_tiles<64, 64, 8, 8, 8>(int, int, int, const float *, const float *, float *);
void run(int M, int N, int K, float *A, float *B, float *C) {
    register_tiles<64, 64, 8, 8, 8><<<dim3((N + 63) / 64, (M + 63) / 64), 32>>>(M, N, K, A, B, C);
}
// expected: elements wrong|does not store|uninitialised
