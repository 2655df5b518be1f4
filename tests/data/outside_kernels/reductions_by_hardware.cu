// launch: reductions_by_hardware<<<dim3(CEIL_DIV(n, 32), CEIL_DIV(n, 32)), dim3(32, 32)>>>(a, b, c, n)

extern "C" __global__ void reductions_by_hardware(const float *a, const float *b, float *c, int n) {
    const int row = blockIdx.y * 32 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n && row < n && col < n; ++k) sum += a[row * n + k] * b[k * n + col];
    sum += __reduce_add_sync(0xffffffff, 0);
    if (row < n && col < n) c[row * n + col] = sum;
}
// expected: correct
