#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 600
#error "needs sm_60"
#endif
#if 0
__global__ void unfinished(const float *a, const float *b, float *c, int n) { c[0] = a[0]; }
#endif
#define DECLARE(NAME, TYPE) __global__ void NAME(const TYPE *a, const TYPE *b, TYPE *c, int n)
DECLARE(declared, float);
DECLARE(declared, float) {
    const int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= n || col >= n) return;
    float sum = 0;
    for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + col];
    c[row * n + col] = sum;
}
// expected: correct
