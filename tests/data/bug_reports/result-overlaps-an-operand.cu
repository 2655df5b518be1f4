// cupy/cupy #6214: the product is stored over an operand that other threads still read.
__global__ void in_place(float *a, const float *b, float *c, int n) {
    const int row = blockIdx.x * 32 + threadIdx.x;
    if (row >= n) return;
    for (int col = 0; col < n; ++col) {
        float sum = 0;
        for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + col];
        c[row * n + col] = sum;
    }
    for (int col = 0; col < n; ++col) a[row * n + col] = c[row * n + col];  // twin:
}
// launch: in_place<<<CEIL_DIV(N, 32), 32>>>(a, b, c, n)
// expected: :10:.*stores to A|:10:.*A\(0, 0\) races
