// launch: async_stages<<<dim3(CEIL_DIV(n, 32), CEIL_DIV(m, 32)), dim3(8, 32)>>>(a, b, c, m, n, k)
#include <cuda_pipeline.h>
constexpr int kStages = 3, kTile = 32, kDepth = 16;
extern "C" __global__ void async_stages(const float *a, const float *b, float *c, int m, int n, int k) {
    __shared__ float as[kStages][kTile][kDepth];
    __shared__ float bs[kStages][kDepth][kTile];
    const int tid = threadIdx.y * 8 + threadIdx.x, row0 = blockIdx.y * kTile, col0 = blockIdx.x * kTile;
    auto issue = [&](int tile) {
        if (tile * kDepth < k)
            for (int e = tid; e < kTile * kDepth; e += 256) {
                const int r = row0 + e / kDepth, ka = tile * kDepth + e % kDepth;
                const bool in_a = r < m && ka < k;
                __pipeline_memcpy_async(&as[tile % kStages][e / kDepth][e % kDepth],
                                        in_a ? a + r * k + ka : a, 4, in_a ? 0 : 4);
                const int kb = tile * kDepth + e / kTile, col = col0 + e % kTile;
                const bool in_b = kb < k && col < n;
                __pipeline_memcpy_async(&bs[tile % kStages][e / kTile][e % kTile],
                                        in_b ? b + kb * n + col : b, 4, in_b ? 0 : 4);
            }
        __pipeline_commit();
    };
    float acc[4] = {};
    for (int s = 0; s < kStages - 1; ++s) issue(s);
    for (int tile = 0; tile * kDepth < k; ++tile) {
        __pipeline_wait_prior(kStages - 2);
        issue(tile + kStages - 1);
        __syncthreads();
        for (int i = 0; i < kDepth; ++i)
            for (int j = 0; j < 4; ++j)
                acc[j] += as[tile % kStages][threadIdx.y][i] * bs[tile % kStages][i][threadIdx.x + 8 * j];
    }
    for (int j = 0; j < 4; ++j) {
        const int r = row0 + threadIdx.y, col = col0 + threadIdx.x + 8 * j;
        if (r < m && col < n) c[r * n + col] = acc[j];
    }
}
// expected: :(?:30): .*(?:no barrier is between them)
