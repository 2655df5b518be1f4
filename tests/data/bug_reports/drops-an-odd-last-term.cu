// triton-lang/triton #934: K = 1 gives a wrong product; terms are taken in pairs.
__global__ void pairs(const float *a, const float *b, float *c, int n) {
    const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    if (row >= n || column >= n) return;
    float even = 0, odd = 0;
    for (int k = 0; k + 1 < n; k += 2) {
        even += a[row * n + k] * b[k * n + column];
        odd += a[row * n + k + 1] * b[(k + 1) * n + column];
    }
    // twin: if (n % 2) even += a[row * n + n - 1] * b[(n - 1) * n + column];
    c[row * n + column] = even + odd;
}
// expected: multiples of 2
