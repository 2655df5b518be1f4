// Blocks take tiles from a counter, which a second launch finds at its end.
__device__ unsigned next_tile, finished;
__global__ void multiply(const float *A, const float *B, float *C, int M, int N, int K) {
    __shared__ unsigned tile;
    const unsigned across = (N + 15) / 16, tiles = across * ((M + 15) / 16);
    for (;;) {
        if (threadIdx.x == 0) tile = atomicAdd(&next_tile, 1);
        __syncthreads();
        const unsigned t = tile;
        __syncthreads();
        if (t >= tiles) break;
        const int row = t / across * 16 + threadIdx.x / 16, column = t % across * 16 + threadIdx.x % 16;
        float sum = 0;
        for (int k = 0; k < K && row < M && column < N; ++k) sum += A[row * K + k] * B[k * N + column];
        if (row < M && column < N) C[row * N + column] = sum;
    }
    if (threadIdx.x || atomicAdd(&finished, 1) < gridDim.x - 1) return;
    finished = 0; // twin:     finished = next_tile = 0;
}
void run(const float *A, const float *B, float *C, int M, int N, int K) {
    multiply<<<32, 256>>>(A, B, C, M, N, K);
}
// expected: does not store C\(0, 0\)
