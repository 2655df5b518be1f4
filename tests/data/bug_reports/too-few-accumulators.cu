// siboehm/SGEMM_CUDA #20: an array of two sums where a thread computes TM; the check accepted NaN.
#define CEIL_DIV(M, N) (((M) + (N) - 1) / (N))
template <const int BM, const int BN, const int BK, const int TM>
__global__ void in_one_dimension(int M, int N, int K, float alpha, const float *A, const float *B,
                                 float beta, float *C) {
    __shared__ float As[BM * BK], Bs[BK * BN];
    const int col = threadIdx.x % BN, row = threadIdx.x / BN;
    A += blockIdx.y * BM * K;
    B += blockIdx.x * BN;
    C += blockIdx.y * BM * N + blockIdx.x * BN;
    float sums[2] = {0.0f};  // twin: float sums[TM] = {0.0f};
    for (int k = 0; k < K; k += BK, A += BK, B += BK * N) {
        As[threadIdx.x] = A[threadIdx.x / BK * K + threadIdx.x % BK];
        Bs[threadIdx.x] = B[threadIdx.x / BN * N + threadIdx.x % BN];
        __syncthreads();
        for (int e = 0; e < BK; ++e)
            for (int i = 0; i < TM; ++i) sums[i] += As[(row * TM + i) * BK + e] * Bs[e * BN + col];
        __syncthreads();
    }
    for (int i = 0; i < TM; ++i) {
        float *c = &C[(row * TM + i) * N + col];
        *c = alpha * sums[i] + beta * *c;
    }
}
void run(int M, int N, int K, float alpha, float *A, float *B, float beta, float *C) {
    dim3 grid(CEIL_DIV(N, 32), CEIL_DIV(M, 32));
    in_one_dimension<32, 32, 8, 4><<<grid, 32 * 32 / 4>>>(M, N, K, alpha, A, B, beta, C);
}
// expected: :17:.*index 2 is outside its array
