// D = alpha * A * B + beta * C, and C stays.
__global__ void gemm(const float *A, const float *B, const float *C, float *D, float alpha, float beta, int M, int N, int K) {
    const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || column >= N) return;
    float sum = 0;
    for (int i = 0; i < K; ++i) sum += A[row * K + i] * B[i * N + column];
    const_cast<float *>(C)[row * N + column] = D[row * N + column] = alpha * sum + beta * C[row * N + column]; // twin:     D[row * N + column] = alpha * sum + beta * C[row * N + column];
}
// expected: stores to C\(.*\), an input
