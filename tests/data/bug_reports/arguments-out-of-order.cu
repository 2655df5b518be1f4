// llnl/RAJAPerf #166: the host passes the sizes in another order than the kernel takes them.
__global__ void mat_mat(float *C, const float *A, const float *B, int M, int N, int K) {
    const int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    if (row >= M || col >= N) return;
    float dot = 0;
    for (int k = 0; k < K; ++k) dot += A[row * K + k] * B[k * N + col];
    C[row * N + col] = dot;
}
void run(float *C, float *A, float *B, int M, int N, int K) {
    dim3 blocks((N + 15) / 16, (M + 15) / 16);
    mat_mat<<<blocks, dim3(16, 16)>>>(C, A, B, M, K, N);  // twin: mat_mat<<<blocks, dim3(16, 16)>>>(C, A, B, M, N, K);
}
// expected: :(6|7):.*(out of bounds|elements wrong|does not store|races)
