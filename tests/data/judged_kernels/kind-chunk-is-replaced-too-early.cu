// A block computes one row of C: its row of A is in shared memory, a chunk at a time.
#define CHUNK 256
__global__ void one_row(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C, int M, int N, int K) {
    __shared__ float chunk[CHUNK];
    const int row = blockIdx.x;
    for (int col0 = 0; col0 < N; col0 += blockDim.x) {
        const int col = col0 + threadIdx.x;
        float sum = 0.0f;
        for (int k0 = 0; k0 < K; k0 += CHUNK) {
            const int len = min(CHUNK, K - k0);
            for (int i = threadIdx.x; i < len; i += blockDim.x) chunk[i] = A[row * K + k0 + i];
            __syncthreads();
            if (col < N)
                for (int i = 0; i < len; ++i) sum += chunk[i] * B[(k0 + i) * N + col];  // twin: for (int i = 0; i < len; ++i) sum += chunk[i] * B[(k0 + i) * N + col]; __syncthreads();
            }
        if (col < N) C[row * N + col] = sum;
    }
}
// launch: one_row<<<M, 128>>>(A, B, C, M, N, K)
// expected: races with thread
