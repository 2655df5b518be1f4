// NVIDIA/cutlass #1326: the main loop ends while asynchronous copies are under way; the epilogue
// uses their memory.
#include <cuda_pipeline.h>
#define S 16
__global__ void multistage(const float *a, const float *b, float *c, int n) {
    __shared__ float left[3][S][S], right[3][S][S];
    const int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * S + y, col = blockIdx.x * S + x;
    const int tiles = n / S;
    float sum = 0;
    for (int t = 0; t < 2; ++t) {
        const int k = min(t, tiles - 1) * S;
        __pipeline_memcpy_async(&left[t][y][x], a + row * n + k + x, 4);
        __pipeline_memcpy_async(&right[t][y][x], b + (k + y) * n + col, 4);
        __pipeline_commit();
    }
    for (int t = 0; t < tiles; ++t) {
        const int k = min(t + 2, tiles - 1) * S, next = (t + 2) % 3;
        __pipeline_wait_prior(1);
        __syncthreads();
        __pipeline_memcpy_async(&left[next][y][x], a + row * n + k + x, 4);
        __pipeline_memcpy_async(&right[next][y][x], b + (k + y) * n + col, 4);
        __pipeline_commit();
        for (int i = 0; i < S; ++i) sum += left[t % 3][y][i] * right[t % 3][i][x];
    }
    // twin: __pipeline_wait_prior(0);
    __syncthreads();
    for (int slot = 0; slot < 3; ++slot) left[slot][y][x] = sum;
    __syncthreads();
    c[row * n + col] = left[tiles % 3][y][x];
}
// expected: :20:.*where thread .* stores at line 27 before the copy ends
