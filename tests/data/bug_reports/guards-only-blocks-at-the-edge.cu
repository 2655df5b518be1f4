// Cjkkkk/CUDA_gemm #6: only the last blocks of the grid check bounds, but every block has a last
// tile along K.
template <int BM, int BN, int BK>
__global__ void edges(const float *A, const float *B, float *C, int M, int N, int K) {
    __shared__ float as[BM][BK], bs[BK][BN];
    const int r = threadIdx.y, c = threadIdx.x;
    const int row = blockIdx.y * BM + r, col = blockIdx.x * BN + c;
    const bool last = blockIdx.x == gridDim.x - 1 || blockIdx.y == gridDim.y - 1;  // twin: const bool last = true;
    float sum = 0;
    for (int k = 0; k < K; k += BK) {
        if (last) {
            as[r][c] = row < M && k + c < K ? A[row * K + k + c] : 0;
            bs[r][c] = k + r < K && col < N ? B[(k + r) * N + col] : 0;
        } else {
            as[r][c] = A[row * K + k + c];
            bs[r][c] = B[(k + r) * N + col];
        }
        __syncthreads();
        for (int e = 0; e < BK; ++e) sum += as[r][e] * bs[e][c];
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = sum;
}
void run(const float *A, const float *B, float *C, int M, int N, int K) {
    dim3 grid((N + 15) / 16, (M + 15) / 16);
    edges<16, 16, 16><<<grid, dim3(16, 16)>>>(A, B, C, M, N, K);
}
// expected: elements wrong|out of bounds
