// A block computes a row of C; a row of A is kept in shared memory piece by piece.
__global__ void row_block(const float *A, const float *B, float *C, int M, int N, int K) {
    __shared__ float piece[128];
    const int row = blockIdx.y, col = blockIdx.x * 128 + threadIdx.x;
    float s = 0;
    for (int k = 0; k < K; k += 128) {
        if (k + threadIdx.x < K) piece[threadIdx.x] = A[row * K + k + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < min(128, K - k); ++i)
            if (col < N) s += piece[i] * B[(k + i) * N + col];
        __syncthreads();
    }
    if (col < N) C[row * N + col] = s;
}
void f(const float *A, const float *B, float *C, int M, int N, int K) { row_block<<<dim3((N + 127) / 128, M), 128>>>(A, B, C, M, N, K); }
// expected: correct
