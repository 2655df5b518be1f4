// sgl-project/sglang #29748: partial sums are added to an output that nothing has set to zero.
__global__ void accumulate(const float *a, const float *b, float *c, int n) {
    const int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= n || col >= n) return;
    float sum = 0;
    for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + col];
    atomicAdd(c + row * n + col, sum);  // twin: c[row * n + col] = sum;
}
// expected: :7:.*C\(0, 0\)|uninitialised|elements wrong
