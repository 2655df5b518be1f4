__global__ void flagged(const float *a, const float *b, float *c, int n) {
    __shared__ float scale[1];
    const int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
    // twin: if (threadIdx.x + threadIdx.y == 0) scale[0] = 3;
    // twin: __syncthreads();
    if (row >= n || col >= n || scale[0] == 2.0f) return;
    float sum = 0;
    for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + col];
    c[row * n + col] = sum;
}
// expected: :6:.*uninitialised
