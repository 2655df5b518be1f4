// launch: broadcast<<<dim3(CEIL_DIV(n, 32), CEIL_DIV(m, 8)), dim3(32, 8)>>>(a, b, c, m, n, k)
// A warp per row: lanes keep 32 elements of the row of A and hand them round.
extern "C" __global__ void broadcast(const float *a, const float *b, float *c, int m, int n, int k) {
    const unsigned lane = threadIdx.x & 31;
    const int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * 32 + lane;
    float sum = 0.f;
    for (int k0 = 0; k0 < k; k0 += 32) {
        const float mine = row < m && k0 + (int)lane < k ? __ldg(a + row * k + k0 + lane) : 0.f;
        const int steps = min(32, k - k0);
        for (int i = 0; i < steps; ++i) {
            if (col >= n) continue;
            const float left = __shfl_sync(0xffffffffu, mine, i);
            if (col < n) sum = __fmaf_rn(left, __ldg(b + (k0 + i) * n + col), sum);
        }
    }
    if (row < m && col < n) c[row * n + col] = sum;
}
// expected: :(?:12): .*(?:has ended or is not in the mask)
