// try: tile=32x32 threads=1024 x=rows
template <const int BLOCKSIZE>
__device__ void coalesced_body(int N, const float *A, const float *B, float *C) {
    const int cRow = blockIdx.x * BLOCKSIZE + (threadIdx.x / BLOCKSIZE);
    const int cCol = blockIdx.y * BLOCKSIZE + (threadIdx.x % BLOCKSIZE);
    if (cRow >= N || cCol >= N) return;
    float sum = 0.0f;
    for (int i = 0; i < N; ++i) {
        sum += A[cRow * N + i] * B[i * N + cCol];
    }
    C[cRow * N + cCol] = sum;
}

extern "C" __global__ void coalesced(const float *__restrict__ A, const float *__restrict__ B,
                                     float *__restrict__ C, int N) {
    coalesced_body<32>(N, A, B, C);
}
// expected: correct
