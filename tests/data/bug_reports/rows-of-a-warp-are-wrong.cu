// ROCm/vllm #28: blocks are no multiple of a warp, and the rows of warps are computed as if they were.
__global__ void rows(const float *A, const float *B, float *C, int N) {
    const int lane = threadIdx.x % 32, row = blockIdx.y * 3 + threadIdx.x / 32, col = blockIdx.x;
    float sum = 0;
    for (int k = lane; k < N && row < N; k += 32) sum += A[row * N + k] * B[k * N + col];
    for (int d = 16; d > 0; d >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, d);
    if (lane == 0 && row < N) C[row * N + col] = sum;
}
void run(const float *A, const float *B, float *C, int N) {
    const int threads = 80;  // twin: const int threads = 96;
    rows<<<dim3(N, (N + 2) / 3), threads>>>(A, B, C, N);
}
// expected: :(6|7):.*(ended or is not in the mask|elements wrong)
