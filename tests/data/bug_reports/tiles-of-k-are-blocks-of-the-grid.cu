// numba/numba #7324: the loop runs over as many tiles as the grid has blocks along x, which is right
// for square matrices only.
__global__ void fast(const float *A, const float *B, float *C, int M, int N, int K) {
    __shared__ float sA[16][16], sB[16][16];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int x = blockIdx.x * blockDim.x + tx, y = blockIdx.y * blockDim.y + ty;
    float tmp = 0.f;
    for (int i = 0; i < gridDim.x; ++i) {  // twin: for (int i = 0; i < (K + 15) / 16; ++i) {
        sA[ty][tx] = y < M && i * 16 + tx < K ? A[y * K + i * 16 + tx] : 0.f;
        sB[ty][tx] = x < N && i * 16 + ty < K ? B[(i * 16 + ty) * N + x] : 0.f;
        __syncthreads();
        for (int j = 0; j < 16; ++j) tmp += sA[ty][j] * sB[j][tx];
        __syncthreads();
    }
    if (y < M && x < N) C[y * N + x] = tmp;
}
// expected: :15:.*elements wrong
