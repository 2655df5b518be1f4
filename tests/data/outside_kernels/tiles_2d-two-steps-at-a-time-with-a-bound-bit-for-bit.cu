// launch: tiles_2d<<<dim3(CEIL_DIV(n, 32), CEIL_DIV(m, 32)), 64>>>(A, B, C, m, n, k)
#define CEIL_DIV(M, N) (((M) + (N)-1) / (N))
constexpr int BM = 32, BN = 32, BK = 8, TM = 4, TN = 4;
constexpr int THREADS = (BM * BN) / (TM * TN);
static_assert(BM % TM == 0 && BN % TN == 0, "whole threads");

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    tiles_2d(const float *A, const float *B, float *C, int M, int N, int K) {
    __shared__ float As[BM * BK], Bs[BK * BN];
    const int threadRow = threadIdx.x / (BN / TN), threadCol = threadIdx.x % (BN / TN);
    const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    float threadResults[TM * TN] = {0.0};
    float regM[TM] = {0.0}, regN[TN] = {0.0};
    for (int tile = 0; tile < CEIL_DIV(K, BK); ++tile) {
        for (int i = threadIdx.x; i < BM * BK; i += THREADS) {
            const int r = row0 + i / BK, k = tile * BK + i % BK;
            As[i] = r < M && k < K ? A[r * K + k] : 0.0f;
        }
        for (int i = threadIdx.x; i < BK * BN; i += THREADS) {
            const int k = tile * BK + i / BN, c = col0 + i % BN;
            Bs[i] = k < K && c < N ? B[k * N + c] : 0.0f;
        }
        __syncthreads();
        for (int dotIdx = 0; dotIdx < BK; dotIdx += 2) {
            for (int i = 0; i < TM; ++i) regM[i] = As[(threadRow * TM + i) * BK + dotIdx];
            for (int i = 0; i < TN; ++i) regN[i] = Bs[dotIdx * BN + threadCol * TN + i];
            for (int m = 0; m < TM; ++m) {
                for (int n = 0; n < TN; ++n) threadResults[m * TN + n] += regM[m] * regN[n] + As[(threadRow * TM + m) * BK + dotIdx + 1] * Bs[(dotIdx + 1) * BN + threadCol * TN + n];
            }
        }
        __syncthreads();
    }
    for (int m = 0; m < TM; ++m) {
        for (int n = 0; n < TN; ++n) {
            const int r = row0 + threadRow * TM + m, c = col0 + threadCol * TN + n;
            if (r < M && c < N) C[r * N + c] = threadResults[m * TN + n];
        }
    }
}
// expected: correct
