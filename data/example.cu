// A tile of A and one of B in shared memory, one element of C per thread.
__global__ void mine(const float *a, const float *b, float *c, int n) {
    __shared__ float a_tile[32][32];
    __shared__ float b_tile[32][32];
    const int x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * 32 + y, column = blockIdx.x * 32 + x;
    float sum = 0.0f;
    for (int k = 0; k < n; k += 32) {
        a_tile[y][x] = row < n && k + x < n ? a[row * n + k + x] : 0.0f;
        b_tile[y][x] = k + y < n && column < n ? b[(k + y) * n + column] : 0.0f;
        __syncthreads();
        for (int i = 0; i < 32; ++i) sum += a_tile[y][i] * b_tile[i][x];
        __syncthreads();
    }
    if (row < n && column < n) c[row * n + column] = sum;
}
