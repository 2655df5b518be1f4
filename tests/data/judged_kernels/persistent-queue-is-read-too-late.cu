// Blocks take tiles from a counter in memory that the host sets to zero.
__global__ void multiply(const float *A, const float *B, float *C, int M, int N, int K, int *next) {
    __shared__ int tile;
    const int across = (N + 15) / 16, tiles = across * ((M + 15) / 16);
    for (;;) {
        if (threadIdx.x == 0) tile = atomicAdd(next, 1);
        __syncthreads();
        const int t = tile;
        // twin:         __syncthreads();
        if (t >= tiles) break;
        const int row = t / across * 16 + threadIdx.x / 16, column = t % across * 16 + threadIdx.x % 16;
        float sum = 0;
        for (int k = 0; k < K && row < M && column < N; ++k) sum += A[row * K + k] * B[k * N + column];
        if (row < M && column < N) C[row * N + column] = sum;
    }
}
void run(const float *A, const float *B, float *C, int M, int N, int K) {
    int *next;
    cudaMalloc(&next, sizeof(int));
    cudaMemset(next, 0, sizeof(int));
    multiply<<<32, 256>>>(A, B, C, M, N, K, next);
}
// expected: :6: multiply, .* of shared memory races|:8: multiply, .* of shared memory races
