template <typename T>
__device__ T dot(const T *x, const T *y, int n) {
    T total;  // twin: T total = 0;
    for (int i = 0; i < n; ++i) total = total + x[i] * y[i * n];
    return total;
}
__global__ void mine(const float *a, const float *b, float *c, int n) {
    const int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
    if (row >= n || col >= n) return;
    float sum = 0;
    sum = dot(a + row * n, b + col, n);
    c[row * n + col] = sum;
}
// expected: elements wrong.*before it has a value
