// Sparse operands: zeros of A are skipped.
__global__ void skip_zeros(const float *A, const float *B, float *C, int M, int N, int K) {
    const int j = blockIdx.x * 64 + threadIdx.x, i = blockIdx.y;
    if (j >= N) return;
    float sum = 0.f;
    for (int k = 0; k < K; ++k) {
        const float a = A[i * K + k];
        if (a == 0.f) break;  // twin: if (a == 0.f) continue;
        sum += a * B[k * N + j];
    }
    C[i * N + j] = sum;
}
// launch: skip_zeros<<<dim3(CEIL_DIV(N, 64), M), 64>>>(A, B, C, M, N, K)
// expected: elements wrong
