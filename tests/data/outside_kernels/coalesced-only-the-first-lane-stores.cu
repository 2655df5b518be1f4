// launch: coalesced<<<dim3(CEIL_DIV(n, 32), CEIL_DIV(n, 32)), 1024>>>(A, B, C, n)
template <const int BLOCKSIZE>
__device__ void coalesced_body(int N, const float *A, const float *B, float *C) {
    const int cRow = blockIdx.x * BLOCKSIZE + (threadIdx.x / BLOCKSIZE);
    const int cCol = blockIdx.y * BLOCKSIZE + (threadIdx.x % BLOCKSIZE);
    if (cRow >= N || cCol >= N) return;
    float sum = 0.0f;
    for (int i = 0; i < N; ++i) {
        sum += A[cRow * N + i] * B[i * N + cCol];
    }
    if (threadIdx.x % 32 == 0) C[cRow * N + cCol] = sum;
}

extern "C" __global__ void coalesced(const float *__restrict__ A, const float *__restrict__ B,
                                     float *__restrict__ C, int N) {
    coalesced_body<32>(N, A, B, C);
}
// expected: :(?:11): .*(?:does not store C)
