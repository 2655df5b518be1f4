// A block of threads computes a BLOCK x BLOCK tile of C from tiles of A and B in shared memory.
// Each word in a tile serves BLOCK threads, so global traffic falls by a factor of BLOCK.
// threadIdx.x runs along columns, because then the lanes of a warp load both tiles in consecutive
// words (source V, Table 5, fast load order). What limits the kernel now is shared memory: each FMA
// still needs two words from it. The guarded build fills the outside of the matrices with zeros.

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
        __syncthreads();  // all threads have read the tiles
    }
#if GUARDED
    if (row >= n || column >= n) return;
#endif
    c[row * n + column] = sum;
}
