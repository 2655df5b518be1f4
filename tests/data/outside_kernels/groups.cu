// launch: groups<<<dim3(CEIL_DIV(n, 32), CEIL_DIV(n, 32)), dim3(32, 32)>>>(a, b, c, n)
#include <cooperative_groups.h>
extern "C" __global__ void groups(const float *a, const float *b, float *c, int n) {
    const int row = blockIdx.y * 32 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n && row < n && col < n; ++k) sum += a[row * n + k] * b[k * n + col];
    cooperative_groups::this_thread_block().sync();
    if (row < n && col < n) c[row * n + col] = sum;
}
// expected: correct
