// try: tile=32x32 threads=32x32

extern "C" __global__ void reductions_by_hardware(const float *a, const float *b, float *c, int n) {
    const int row = blockIdx.y * 32 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n && row < n && col < n; ++k) sum += a[row * n + k] * b[k * n + col];
    sum += __reduce_add_sync(0xffffffff, 0);
    if (row < n && col < n) c[row * n + col] = sum;
}
// expected: unsupported
