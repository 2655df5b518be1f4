// facebookexperimental/triton #2058: copies of A and of B are two groups; the wait counts tiles.
#include <cuda_pipeline.h>
#define SLOTS 3
__global__ void counted_tiles(const float *a, const float *b, float *c, int n) {
    __shared__ float ta[SLOTS][16][16], tb[SLOTS][16][16];
    const int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x;
    const int tiles = (n + 15) / 16;
    float sum = 0;
    for (int t = 0; t < tiles + SLOTS - 1; ++t) {
        const int k = t * 16, slot = t % SLOTS;
        if (t < tiles) {
            const bool in_a = row < n && k + x < n, in_b = k + y < n && col < n;
            __pipeline_memcpy_async(&ta[slot][y][x], in_a ? a + row * n + k + x : a, 4, in_a ? 0 : 4);
            __pipeline_commit();  // twin:
            __pipeline_memcpy_async(&tb[slot][y][x], in_b ? b + (k + y) * n + col : b, 4, in_b ? 0 : 4);
        }
        __pipeline_commit();
        const int now = t - SLOTS + 1;
        if (now < 0) continue;
        __pipeline_wait_prior(2 * SLOTS - 2);  // twin: __pipeline_wait_prior(SLOTS - 1);
        __syncthreads();
        for (int i = 0; i < 16; ++i) sum += ta[now % SLOTS][y][i] * tb[now % SLOTS][i][x];
        __syncthreads();
    }
    if (row < n && col < n) c[row * n + col] = sum;
}
// expected: elements wrong|uninitialised|under way|races
