// launch: unrolled<<<dim3(CEIL_DIV(n, 16), CEIL_DIV(n, 16)), 256>>>(L, R, P, n)
#define STEP(i) s += l[ty][(i)] * r[(i)][tx];
#define STEP4(i) STEP(i) STEP((i) + 1) STEP((i) + 2) STEP((i) + 3)
#define STEP8(i) STEP4(i) STEP4((i) + 4)
extern "C" __global__ void unrolled(const float *L, const float *R, float *P, int n) {
    __shared__ float l[16][8], r[8][16];
    const int tx = threadIdx.x & 15, ty = threadIdx.x >> 4;
    const int y0 = blockIdx.y << 4, x0 = blockIdx.x << 4;
    const int lr = threadIdx.x >> 3, lc = threadIdx.x & 7;
    float s = 0;
    const int tiles = n / 8 + (n % 8 > 1);
    for (int z = 0; z < tiles; ++z) {
        if (threadIdx.x < 128)
            l[lr][lc] = y0 + lr < n && z * 8 + lc < n ? L[(y0 + lr) * n + z * 8 + lc] : 0;
        else
            r[ty - 8][tx] = z * 8 + ty - 8 < n && x0 + tx < n ? R[(z * 8 + ty - 8) * n + x0 + tx] : 0;
        __syncthreads();
        STEP8(0)
        __syncthreads();
    }
    if (y0 + ty < n && x0 + tx < n) P[(y0 + ty) * n + x0 + tx] = s;
}
// expected: :(?:21): .*(?:elements wrong)
