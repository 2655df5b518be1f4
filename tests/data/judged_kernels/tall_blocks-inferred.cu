// One-dimensional blocks, a column of eight elements per thread, sizes in another order.
constexpr int ROWS = 8;
__global__ void columns_of_eight(int K, int N, int M, float *__restrict__ C, const float *__restrict__ B, const float *__restrict__ A) {
    const int col = blockIdx.x * blockDim.x + threadIdx.x, top = blockIdx.y * ROWS;
    if (col >= N) return;
    float acc[ROWS] = {0.0f};
    for (int k = 0; k < K; ++k) {
        const float b = B[k * N + col];
#pragma unroll
        for (int r = 0; r < ROWS; ++r)
            if (top + r < M) acc[r] += A[(top + r) * K + k] * b;
    }
    for (int r = 0; r < ROWS && top + r < M; ++r) C[(top + r) * N + col] = acc[r];
}
// expected: correct
