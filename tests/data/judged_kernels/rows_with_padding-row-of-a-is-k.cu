// Rows of the matrices may be longer than their elements.
__global__ void multiply(int M, int N, int K, const float *A, int lda, const float *B, int ldb, float *C,
                         int ldc) {
    const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || column >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) {
        sum += A[row * K + k] * B[k * ldb + column];  // twin:         sum += A[row * lda + k] * B[k * ldb + column];
    }
    C[row * ldc + column] = sum;
}
void call(const float *A, const float *B, float *C, int M, int N, int K) {
    multiply<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(M, N, K, A, K, B, N, C, N);
}
// expected: elements wrong.*with leading dimensions above the sizes
