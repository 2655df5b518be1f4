#include <cuda_pipeline.h>
// Two stages of asynchronous copies.
__global__ void two_stages(const float *__restrict__ a, const float *__restrict__ b, float *c, int m, int n, int k) {
    __shared__ float sa[2][16][16], sb[2][16][16];
    const int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x;
    const int tiles = (k + 15) / 16;
    auto load = [&](int t) {
        const int s = t & 1, ka = t * 16 + x, kb = t * 16 + y;
        const bool ina = row < m && ka < k, inb = kb < k && col < n;
        __pipeline_memcpy_async(&sa[s][y][x], ina ? &a[row * k + ka] : a, 4, 0);
        __pipeline_memcpy_async(&sb[s][y][x], inb ? &b[kb * n + col] : b, 4, 0);
    };
    load(0);
    __pipeline_commit();
    float sum = 0;
    for (int t = 0; t < tiles; ++t) {
        if (t + 1 < tiles) load(t + 1);
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        for (int i = 0; i < 16; ++i) sum += sa[t & 1][y][i] * sb[t & 1][i][x];
        __syncthreads();
    }
    if (row < m && col < n) c[row * n + col] = sum;
}
// expected: elements wrong|multiples of
