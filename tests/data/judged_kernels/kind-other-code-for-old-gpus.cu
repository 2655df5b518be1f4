__global__ void mine(const float *a, const float *b, float *c, int n) {
    const int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
    if (row >= n || col >= n) return;
    float sum = 0;
#if __CUDA_ARCH__ >= 800
    for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + col];
#else
    for (int k = 1; k < n; ++k) sum += a[row * n + k] * b[k * n + col];
#endif
    c[row * n + col] = sum;
}
// expected: :8: only GPUs compile these lines
