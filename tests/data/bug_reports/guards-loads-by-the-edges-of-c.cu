// Cjkkkk/CUDA_gemm #4: loads of A and B are guarded by the rows and columns of C.
#define EDGE 16
__global__ void guarded(int M, int N, int K, const float *A, const float *B, float *C) {
    __shared__ float left[EDGE][EDGE], right[EDGE][EDGE];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row = blockIdx.y * EDGE + ty, col = blockIdx.x * EDGE + tx;
    float value = 0.0f;
    for (int step = 0; step < K; step += EDGE) {
        left[ty][tx] = row < M && col < N ? A[row * K + step + tx] : 0.0f;  // twin: left[ty][tx] = row < M && step + tx < K ? A[row * K + step + tx] : 0.0f;
        right[ty][tx] = step + ty < K && col < N ? B[(step + ty) * N + col] : 0.0f;
        __syncthreads();
        for (int e = 0; e < EDGE; ++e) value += left[ty][e] * right[e][tx];
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = value;
}
// expected: :(9|13|15):.*(elements wrong|out of bounds|uninitialised)
