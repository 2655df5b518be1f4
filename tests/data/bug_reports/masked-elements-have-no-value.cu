// triton-lang/triton #630: what a mask excludes along K has no value, and enters the sum.
__global__ void masked(const float *a, const float *b, float *c, int m, int n, int k) {
    __shared__ float ta[16][32], tb[32][16];
    const int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x;
    float sum = 0.f;
    for (int p = 0; p < k; p += 32) {
        for (int h = 0; h < 32; h += 16) {
            if (row < m && p + h + x < k) ta[y][h + x] = a[row * k + p + h + x];
            if (p + h + y < k && col < n) tb[h + y][x] = b[(p + h + y) * n + col];
            // twin: if (row >= m || p + h + x >= k) ta[y][h + x] = 0.f;
            // twin: if (p + h + y >= k || col >= n) tb[h + y][x] = 0.f;
        }
        __syncthreads();
        for (int e = 0; e < 32; ++e) sum += ta[y][e] * tb[e][x];
        __syncthreads();
    }
    if (row < m && col < n) c[row * n + col] = sum;
}
// expected: :(14|17):.*(uninitialised|elements wrong)
