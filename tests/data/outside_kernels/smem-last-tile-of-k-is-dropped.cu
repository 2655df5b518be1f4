// launch: smem_tile<<<dim3(CEIL_DIV(n, 16), CEIL_DIV(m, 16)), 256>>>(A, B, C, m, n, k)
#define BLOCKSIZE 16

extern "C" __global__ void __launch_bounds__(256)
smem_tile(const float *A, const float *B, float *C, int M, int N, int K) {
    const uint threadCol = threadIdx.x % BLOCKSIZE, threadRow = threadIdx.x / BLOCKSIZE;
    const uint row = blockIdx.y * BLOCKSIZE + threadRow, col = blockIdx.x * BLOCKSIZE + threadCol;
    __shared__ float As[BLOCKSIZE * BLOCKSIZE];
    __shared__ float Bs[BLOCKSIZE * BLOCKSIZE];
    A += blockIdx.y * BLOCKSIZE * K;
    B += blockIdx.x * BLOCKSIZE;
    C += blockIdx.y * BLOCKSIZE * N + blockIdx.x * BLOCKSIZE;
    float tmp = 0.0;
    for (int bkIdx = 0; bkIdx + BLOCKSIZE < K; bkIdx += BLOCKSIZE) {
        const bool inA = row < M && bkIdx + threadCol < K, inB = col < N && bkIdx + threadRow < K;
        As[threadRow * BLOCKSIZE + threadCol] = inA ? A[threadRow * K + threadCol] : 0.0f;
        Bs[threadRow * BLOCKSIZE + threadCol] = inB ? B[threadRow * N + threadCol] : 0.0f;
        __syncthreads();  // filled
        A += BLOCKSIZE;
        B += BLOCKSIZE * N;
        for (int dotIdx = 0; dotIdx < BLOCKSIZE; ++dotIdx) {
            tmp += As[threadRow * BLOCKSIZE + dotIdx] * Bs[dotIdx * BLOCKSIZE + threadCol];
        }
        __syncthreads();  // used
    }
    if (row < M && col < N) C[threadRow * N + threadCol] = tmp;
}
// expected: :(?:26): .*(?:elements wrong)
