// Rows of the matrices may be longer than their elements.
__global__ void multiply(int M, int N, int K, const float *A, int lda, const float *B, int ldb, float *C,
                         int ldc) {
    const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    if (row < M && column < N) {
        for (int k = 0; k < K; ++k) sum += A[row * lda + k] * B[k * ldb + column];
    }
    if (row < M && column < ldc) C[row * ldc + column] = sum;  // twin:     if (row < M && column < N) C[row * ldc + column] = sum;
}
// expected: stores behind a row of C .*with leading dimensions above the sizes
