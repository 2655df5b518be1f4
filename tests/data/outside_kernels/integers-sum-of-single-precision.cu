// launch: integers<<<dim3(CEIL_DIV(n, 32), CEIL_DIV(m, 8)), 256>>>(a, b, c, m, n, k)
extern "C" __global__ void integers(const int *a, const int *b, int *c, int m, int n, int k) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int2 at = make_int2(blockIdx.x * 32 + lane, blockIdx.y * 8 + warp);
    if (at.x >= n || at.y >= m) return;
    float sum = 0;
    for (int i = 0; i < k; i++) sum += (unsigned)a[at.y * k + i] * (unsigned)b[i * n + at.x];
    c[at.y * n + at.x] = (int)sum;
}
// expected: :(?:8): .*(?:elements wrong)
