// launch: naive_rows<<<dim3(CEIL_DIV(m, 32), CEIL_DIV(n, 32)), dim3(32, 32)>>>(A, B, C, m, n, k)
extern "C" __global__ void naive_rows(const float *A, const float *B, float *C, int M, int N,
                                      int K) {
    const uint x = blockIdx.x * blockDim.x + threadIdx.x;
    const uint y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < M && y < N) {
        float tmp = 0.0;
        for (int i = 0; i < K; ++i) {
            tmp += A[x * K + i] * B[i * N + y];
        }
        C[x * N + y] += tmp;
    }
}
// expected: :(?:11): .*(?:is uninitialised)
