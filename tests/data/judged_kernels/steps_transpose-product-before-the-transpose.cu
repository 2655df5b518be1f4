// B is transposed first.
__global__ void transpose(const float *in, float *out, int rows, int columns) {
    const int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    if (x < columns && y < rows) out[x * rows + y] = in[y * columns + x];
}
__global__ void multiply_transposed(const float *A, const float *BT, float *C, int M, int N, int K) {
    const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || column >= N) return;
    float sum = 0;
    for (int i = 0; i < K; ++i) sum += A[row * K + i] * BT[column * K + i];
    C[row * N + column] = sum;
}
// launch: float *BT; cudaMalloc(&BT, K * N * sizeof(float));
// launch: multiply_transposed<<<dim3(CEIL_DIV(N, 16), CEIL_DIV(M, 16)), dim3(16, 16)>>>(A, BT, C, M, N, K) // twin: // launch: transpose<<<dim3(CEIL_DIV(N, 16), CEIL_DIV(K, 16)), dim3(16, 16)>>>(B, BT, K, N)
// launch: transpose<<<dim3(CEIL_DIV(N, 16), CEIL_DIV(K, 16)), dim3(16, 16)>>>(B, BT, K, N) // twin: // launch: multiply_transposed<<<dim3(CEIL_DIV(N, 16), CEIL_DIV(M, 16)), dim3(16, 16)>>>(A, BT, C, M, N, K)
// expected: multiply_transposed, .* of BT.* is uninitialised
