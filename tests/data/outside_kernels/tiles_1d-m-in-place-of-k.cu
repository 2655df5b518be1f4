// launch: tiles_1d<<<dim3(CEIL_DIV(n, 32), CEIL_DIV(m, 32)), 256>>>(A, B, C, m, n, k)
template <const int BM, const int BN, const int BK, const int TM>
__device__ void tiles_1d_body(int M, int N, int K, const float *A, const float *B, float *C) {
    const int threadCol = threadIdx.x % BN, threadRow = threadIdx.x / BN;
    const int innerColA = threadIdx.x % BK, innerRowA = threadIdx.x / BK;
    const int innerColB = threadIdx.x % BN, innerRowB = threadIdx.x / BN;
    const int rowA = blockIdx.y * BM + innerRowA, colB = blockIdx.x * BN + innerColB;
    __shared__ float As[BM * BK];
    __shared__ float Bs[BK * BN];
    float threadResults[TM] = {0.0};
    for (int bkIdx = 0; bkIdx < K; bkIdx += BK) {
        const int colA = bkIdx + innerColA, rowB = bkIdx + innerRowB;
        As[innerRowA * BK + innerColA] = rowA < M && colA < K ? A[rowA * M + colA] : 0.0f;
        Bs[innerRowB * BN + innerColB] = rowB < K && colB < N ? B[rowB * N + colB] : 0.0f;
        __syncthreads();
        for (int dotIdx = 0; dotIdx < BK; ++dotIdx) {
            float tmpB = Bs[dotIdx * BN + threadCol];
            for (int resIdx = 0; resIdx < TM; ++resIdx) {
                threadResults[resIdx] += As[(threadRow * TM + resIdx) * BK + dotIdx] * tmpB;
            }
        }
        __syncthreads();
    }
    for (int resIdx = 0; resIdx < TM; ++resIdx) {
        const int row = blockIdx.y * BM + threadRow * TM + resIdx;
        if (row < M && colB < N) C[row * N + colB] = threadResults[resIdx];
    }
}

extern "C" __global__ void tiles_1d(const float *A, const float *B, float *C, int M, int N, int K) {
    tiles_1d_body<32, 32, 8, 4>(M, N, K, A, B, C);
}
// expected: :(?:26): .*(?:elements wrong)
