#include <cuda_pipeline.h>
__global__ void ring(const float *a, const float *b, float *c, int n) {
    __shared__ float left[2][16][16], right[2][16][16];
    const int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x;
    const int steps = (n + 15) / 16, ahead = 2;  // twin: const int steps = (n + 15) / 16, ahead = 1;
    float sum = 0;
    for (int step = 0, issued = 0; step < steps; ++step) {
        for (; issued <= step + ahead; ++issued) {
            const int k = issued * 16, slot = issued % 2;
            const bool in_a = row < n && k + x < n, in_b = k + y < n && col < n;
            __pipeline_memcpy_async(&left[slot][y][x], in_a ? a + row * n + k + x : a, 4, in_a ? 0 : 4);
            __pipeline_memcpy_async(&right[slot][y][x], in_b ? b + (k + y) * n + col : b, 4, in_b ? 0 : 4);
            __pipeline_commit();
        }
        __pipeline_wait_prior(ahead);
        __syncthreads();
        for (int i = 0; i < 16; ++i) sum += left[step % 2][y][i] * right[step % 2][i][x];
        __syncthreads();
    }
    if (row < n && col < n) c[row * n + col] = sum;
}
// expected: :1[12]:.*where the copy of line 1[12] is under way
