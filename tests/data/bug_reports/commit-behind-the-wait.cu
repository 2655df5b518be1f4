// csarofeen/pytorch #2457: the group of copies is committed behind the wait, so that the wait is for
// an older one.
#include <cuda_pipeline.h>
__global__ void late_commit(const float *a, const float *b, float *c, int n) {
    __shared__ float ta[2][16][16], tb[2][16][16];
    const int x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
    auto fetch = [&](int tile) {
        if (tile * 16 >= n) return;
        const int k = tile * 16 + x, l = tile * 16 + y, slot = tile % 2;
        const bool in_a = row < n && k < n, in_b = l < n && column < n;
        __pipeline_memcpy_async(&ta[slot][y][x], in_a ? a + row * n + k : a, 4, in_a ? 0 : 4);
        __pipeline_memcpy_async(&tb[slot][y][x], in_b ? b + l * n + column : b, 4, in_b ? 0 : 4);
    };
    float sum = 0;
    fetch(0);
    __pipeline_commit();
    for (int tile = 0; tile * 16 < n; ++tile) {
        fetch(tile + 1);
        // twin: __pipeline_commit();
        __pipeline_wait_prior(1);
        __pipeline_commit();  // twin:
        __syncthreads();
        for (int i = 0; i < 16; ++i) sum += ta[tile % 2][y][i] * tb[tile % 2][i][x];
        __syncthreads();
    }
    if (row < n && column < n) c[row * n + column] = sum;
}
// expected: elements wrong|uninitialised|races|under way
