// Elements of A travel by shuffles.
__global__ void shuffled(const float *a, const float *b, float *c, int n) {
    const int row = blockIdx.y * blockDim.y + threadIdx.y, lane = threadIdx.x, col = blockIdx.x * 32 + lane;
    float s = 0;
    for (int k = 0; k < n; k += 32) {
        const float mine = row < n && k + lane < n ? a[row * n + k + lane] : 0.0f;
        for (int i = 0; i < 32; ++i) {
            const float x = __shfl_sync(0xffffffff, mine, i);
            if (k + i < n && col < n) s += x * b[(k + i) * n + col];
        }
    }
    if (row < n && col < n) c[row * n + col] = s;
}
// launch: shuffled<<<dim3(CEIL_DIV(N, 32), CEIL_DIV(N, 4)), dim3(32, 4)>>>(a, b, c, n)
// expected: correct
