// PacktPublishing/Learn-CUDA-Programming #14: the loop steps by the tile's edge, and the index is
// multiplied by it again.
#define BLOCK_DIM 16
__global__ void sgemm_tiled(const float *A, const float *B, float *C, int N, int M, int K) {
    const int tid_x = threadIdx.x, tid_y = threadIdx.y;
    const int row = blockIdx.y * BLOCK_DIM + tid_y, col = blockIdx.x * BLOCK_DIM + tid_x;
    __shared__ float s_A[BLOCK_DIM][BLOCK_DIM], s_B[BLOCK_DIM][BLOCK_DIM];
    float element = 0.f;
    for (int k = 0; k < K; k += BLOCK_DIM) {
        const int at = k * BLOCK_DIM;  // twin: const int at = k;
        s_A[tid_y][tid_x] = row < M && at + tid_x < K ? A[row * K + at + tid_x] : 0.f;
        s_B[tid_y][tid_x] = at + tid_y < K && col < N ? B[(at + tid_y) * N + col] : 0.f;
        __syncthreads();
        for (int e = 0; e < BLOCK_DIM; e++) element += s_A[tid_y][e] * s_B[e][tid_x];
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = element;
}
// expected: :17:.*elements wrong
