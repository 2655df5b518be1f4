// BLOCK x BLOCK tiles of A and B in shared memory, one element of C a thread. threadIdx.x runs
// along columns, so that the lanes of a warp load both tiles in consecutive words: the fast load
// order (source V, Table 5). The guarded build fills what lies outside the matrices with zeros.

extern "C" __global__ void block(const float *a, const float *b, float *c, int n) {
    __shared__ float a_tile[BLOCK][BLOCK];
    __shared__ float b_tile[BLOCK][BLOCK];
    const int x = threadIdx.x;
    const int y = threadIdx.y;
    const int row = blockIdx.y * BLOCK + y;
    const int column = blockIdx.x * BLOCK + x;

    float sum = 0.0f;
    for (int tile = 0; tile < n; tile += BLOCK) {
#if GUARDED
        a_tile[y][x] = row < n && tile + x < n ? a[row * n + tile + x] : 0.0f;
        b_tile[y][x] = tile + y < n && column < n ? b[(tile + y) * n + column] : 0.0f;
#else
        a_tile[y][x] = a[row * n + tile + x];
        b_tile[y][x] = b[(tile + y) * n + column];
#endif
        __syncthreads();  // the tiles are complete
        for (int k = 0; k < BLOCK; ++k) {
            sum += a_tile[y][k] * b_tile[k][x];
        }
        __syncthreads();  // nobody overwrites a tile that another thread still reads
    }
#if GUARDED
    if (row >= n || column >= n) return;
#endif
    c[row * n + column] = sum;
}
