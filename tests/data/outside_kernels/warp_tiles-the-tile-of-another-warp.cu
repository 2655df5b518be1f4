// launch: warp_tiles<<<dim3(CEIL_DIV(n, 32), CEIL_DIV(n, 16)), dim3(32, 4)>>>(a, b, c, n)
// Each warp has a tile of A of its own, with barriers of the warp only.
extern "C" __global__ void warp_tiles(const float *a, const float *b, float *c, int n) {
    __shared__ float own[4][4][32];
    const int lane = threadIdx.x, warp = threadIdx.y;
    const int row0 = blockIdx.y * 16 + warp * 4, col = blockIdx.x * 32 + lane;
    float acc[4] = {0, 0, 0, 0};
    for (int k0 = 0; k0 < n; k0 += 32) {
        for (int r = 0; r < 4; ++r)
            own[warp][r][lane] = row0 + r < n && k0 + lane < n ? a[(row0 + r) * n + k0 + lane] : 0.f;
        __syncwarp();  // filled
        for (int k = 0; k < 32 && k0 + k < n; ++k) {
            const float right = col < n ? b[(k0 + k) * n + col] : 0.f;
            for (int r = 0; r < 4; ++r) acc[r] += own[warp ^ 1][r][k] * right;
        }
        __syncwarp();  // used
    }
    for (int r = 0; r < 4 && col < n; ++r)
        if (row0 + r < n) c[(row0 + r) * n + col] = acc[r];
}
// expected: :(?:10|14): .*(?:no thread of the block wrote it)
