// modular/modular #5700: rows of a partial tile are stored with a shorter stride than they are read.
__global__ void partial(const float *a, const float *b, float *c, int m, int n, int k) {
    __shared__ float left[16 * 16], right[16 * 16];
    const int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x;
    float sum = 0;
    for (int begin = 0; begin < k; begin += 16) {
        const int size = min(16, k - begin);
        if (x < size) left[y * size + x] = row < m ? a[row * k + begin + x] : 0;  // twin: if (x < size) left[y * 16 + x] = row < m ? a[row * k + begin + x] : 0;
        if (y < size) right[y * 16 + x] = col < n ? b[(begin + y) * n + col] : 0;
        __syncthreads();
        for (int i = 0; i < size; ++i) sum += left[y * 16 + i] * right[i * 16 + x];
        __syncthreads();
    }
    if (row < m && col < n) c[row * n + col] = sum;
}
// expected: :(11|14):.*(elements wrong|uninitialised)
