// launch: async_vectors<<<dim3(CEIL_DIV(n, 32), CEIL_DIV(n, 32)), 256>>>(a, b, c, n)
#define GUARDED 0
extern "C" __global__ void async_vectors(const float *a, const float *b, float *c, int n) {
    __shared__ __align__(16) float tiles[2][2][32 * 32];
    const int t = threadIdx.x, row = t / 8, quad = t % 8 * 4;
    const int gr = blockIdx.y * 32, gc = blockIdx.x * 32;
    float sums[4] = {};
    auto fetch = [&](int at, int k0) {
#if GUARDED
        for (int i = 0; i < 4; ++i) {
            const int k = k0 + quad + i, col = gc + quad + i;
            tiles[at][0][row * 32 + quad + i] = gr + row < n && k < n ? a[(gr + row) * n + k] : 0;
            tiles[at][1][row * 32 + quad + i] = k0 + row < n && col < n ? b[(k0 + row) * n + col] : 0;
        }
#else
        __pipeline_memcpy_async(tiles[at][0] + row * 32 + quad, a + (gr + row) * n + k0 + quad, 16);
        __pipeline_memcpy_async(tiles[at][1] + row * 32 + quad, b + (k0 + row) * n + gc + quad, 16);
#endif
        __pipeline_commit();
    };
    fetch(0, 0);
    for (int k0 = 0, at = 0; k0 < n; k0 += 32, at = !at) {
        __syncthreads();
        if (k0 + 32 < n) fetch(!at, k0 + 32);
        for (int k = 0; k < 32; ++k)
            for (int i = 0; i < 4; ++i)
                sums[i] += tiles[at][0][row * 32 + k] * tiles[at][1][k * 32 + quad + i];
    }
    for (int i = 0; i < 4; ++i)
        if (gr + row < n && gc + quad + i < n) c[(gr + row) * n + gc + quad + i] = sums[i];
}
// expected: :(?:16): .*(?:where the copy of line 16 is under way)
