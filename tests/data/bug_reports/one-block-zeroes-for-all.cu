// vllm-project/vllm #30719: the block with z = 0 stores zeros, the others add to them; no barrier is
// between blocks.
#define DEPTH 64
__global__ void split(const float *A, const float *B, float *C, int M, int N, int K) {
    const int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    const int begin = blockIdx.z * DEPTH, end = min(K, begin + DEPTH);
    if (row < M && col < N && blockIdx.z == 0) C[row * N + col] = 0;
    __syncthreads();
    float sum = 0;
    if (row < M && col < N) {
        for (int k = begin; k < end; ++k) sum += A[row * K + k] * B[k * N + col];
        atomicAdd(&C[row * N + col], sum);  // twin: if (blockIdx.z == 0) { for (int k = end; k < K; ++k) sum += A[row * K + k] * B[k * N + col]; C[row * N + col] = sum; }
    }
}
void run(const float *A, const float *B, float *C, int M, int N, int K) {
    dim3 grid((N + 15) / 16, (M + 15) / 16, (K + DEPTH - 1) / DEPTH);
    split<<<grid, dim3(16, 16)>>>(A, B, C, M, N, K);
}
// expected: :12:.*races with
