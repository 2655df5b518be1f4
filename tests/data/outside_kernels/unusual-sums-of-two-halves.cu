// launch: unusual<<<dim3(CEIL_DIV(n, 16), CEIL_DIV(n, 32)), dim3(16, 8), (32*8+8*16)*4>>>(left, right, out, n)

// Four rows a thread; one dynamic array for both tiles; sizes of the launch instead of constants.
extern __shared__ float both[];
extern "C" __global__ void unusual(const float *const left, const float *const right, float *const out,
                                   const int n) {
    const dim3 me(threadIdx.x, threadIdx.y), us = blockDim;
    const unsigned flat = me.y * us.x + me.x, all = us.x * us.y;
    float *const upper = both, *const lower = &both[32 * 8];
    double ignored = 0;
    float r0 = 0, r1 = 0, r2 = 0, r3 = 0;
    for (int base = 0; base < n;) {
        for (unsigned e = flat; e < 32 * 8; e += all) {
            const int i = blockIdx.y * 32 + e / 8, k = base + e % 8;
            upper[e] = i < n and k < n ? left[i * n + k] : 0;
        }
        if (flat < 8 * 16) {
            const int k = base + flat / 16, j = blockIdx.x * 16 + flat % 16;
            lower[flat] = k < n and j < n ? right[k * n + j] : 0;
        }
        __syncthreads();
        for (int k = 8; k --> 0;) ignored += upper[k];
        for (const float *u = upper + me.y * 8, *l = lower + me.x; u < upper + me.y * 8 + 8; ++u, l += 16)
            r0 = fmaf(u[0], *l, r0), r1 += u[64] * *l, r2 += u[128] * *l, r3 += u[192] * *l;
        __syncthreads();
        base += 8;
    }
    const float *const results[] = {&r0, &r1, &r2, &r3};
    for (int q = 0; not(q == 4); ++q) {
        const int i = blockIdx.y * 32 + me.y + 8 * q, j = blockIdx.x * 16 + me.x;
        if (i < n and j < n) out[i * n + j] = *results[q];
    }
}
// expected: correct
