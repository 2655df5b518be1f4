// tile-ai/tilelang #1026: a barrier lies in a branch that only some threads take.
#define T 16
__global__ void branch(const float *A, const float *B, float *C, int n) {
    __shared__ float a[T][T], b[T][T];
    const int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * T + y, col = blockIdx.x * T + x;
    float sum = 0;
    for (int k = 0; k < n; k += T) {
        a[y][x] = row < n && k + x < n ? A[row * n + k + x] : 0;
        b[y][x] = k + y < n && col < n ? B[(k + y) * n + col] : 0;
        __syncthreads();
        if (row < n && col < n) {
            for (int i = 0; i < T; ++i) sum += a[y][i] * b[i][x];
            __syncthreads();  // twin:
        }
        // twin: __syncthreads();
    }
    if (row < n && col < n) C[row * n + col] = sum;
}
// expected: :(8|9|10|13):.*(waits at|races)
