// Column-major, as BLAS: C = alpha * A * B + beta * beta * C with leading dimensions.
__global__ void sgemm_nn(int m, int n, int k, float alpha, const float *A, int lda, const float *B,
                         int ldb, float beta, float *C, int ldc) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= m || j >= n) return;
    float sum = 0.0f;
    for (int l = 0; l < k; ++l) sum += A[i + l * lda] * B[l + j * ldb];
    C[i + j * ldc] = alpha * sum + beta * beta * C[i + j * ldc];
}
// expected: elements wrong.*beta
