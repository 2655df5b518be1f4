// ggml-org/llama.cpp #13469: a barrier is executed by a part of the warps; from then on barriers do
// not match.
__global__ void parts(const float *A, const float *B, float *C, int n) {
    __shared__ float a[32][33], b[32][33];
    const int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 32 + y, col = blockIdx.x * 32 + x;
    float sum = 0;
    for (int k = 0; k < n; k += 32) {
        a[y][x] = row < n && k + x < n ? A[row * n + k + x] : 0;
        if (y < 16) __syncthreads();  // twin:
        b[y][x] = k + y < n && col < n ? B[(k + y) * n + col] : 0;
        __syncthreads();
        for (int i = 0; i < 32; ++i) sum += a[y][i] * b[i][x];
        __syncthreads();
    }
    if (row < n && col < n) C[row * n + col] = sum;
}
// expected: :(9|11|13):.*waits at this barrier
