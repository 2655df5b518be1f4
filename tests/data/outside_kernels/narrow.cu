// launch: narrow<<<dim3(CEIL_DIV(n, 16), CEIL_DIV(n, 16)), dim3(16, 16)>>>(a, b, c, n)
// Flags of one byte and indices of two, in shared memory; a barrier that votes.
extern "C" __global__ void narrow(const float *a, const float *b, float *c, int n) {
    __shared__ float ta[16][16], tb[16][16];
    __shared__ bool inside[16];
    __shared__ unsigned short order[16];
    const int x = threadIdx.x, y = threadIdx.y, i = blockIdx.y * 16 + y, j = blockIdx.x * 16 + x;
    if (y == 0) inside[x] = blockIdx.x * 16 + x < n, order[x] = x;
    __syncthreads();
    float sum = 0;
    for (int k = 0; k < n; k += 16) {
        ta[y][order[x]] = i < n && k + x < n ? a[i * n + k + x] : 0;
        tb[y][x] = inside[x] && k + y < n ? b[(k + y) * n + j] : 0;
        if (__syncthreads_and(k + 16 > n && i < 0)) return;
        for (int q = 0; q < 16; ++q) sum += ta[y][q] * tb[q][x];
        __syncthreads();
    }
    if (i < n && inside[x]) c[i * n + j] = sum;
}
// expected: correct
