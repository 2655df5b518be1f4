// tile_uncoalesced with coalesced loads: the host has transposed B, so `bt` contains the columns of
// B as rows, and both tiles are loaded in consecutive words. The cost moves to shared memory. In
// the sum, the lanes of a warp read b_tile down a column; these words are all in one bank (with
// BLOCK 16, in two), so each read is repeated for every lane (source T, fourth step). The guarded
// build fills the outside with zeros.

extern "C" __global__ void tile_transposed_b(const float *a, const float *bt, float *c, int n) {
    __shared__ float a_tile[BLOCK][BLOCK];
    __shared__ float b_tile[BLOCK][BLOCK];  // [column of B][row of B]
    const int x = threadIdx.x;
    const int y = threadIdx.y;
    const int row = blockIdx.y * BLOCK + y;
    const int first_column = blockIdx.x * BLOCK;

    float sum = 0.0f;
    for (int tile = 0; tile < n; tile += BLOCK) {
#if GUARDED
        a_tile[y][x] = row < n && tile + x < n ? a[row * n + tile + x] : 0.0f;
        b_tile[y][x] =
            first_column + y < n && tile + x < n ? bt[(first_column + y) * n + tile + x] : 0.0f;
#else
        a_tile[y][x] = a[row * n + tile + x];
        b_tile[y][x] = bt[(first_column + y) * n + tile + x];
#endif
        __syncthreads();  // the tiles are complete
        for (int k = 0; k < BLOCK; ++k) {
            sum += a_tile[y][k] * b_tile[x][k];
        }
        __syncthreads();  // all threads have read the tiles
    }
#if GUARDED
    if (row >= n || first_column + x >= n) return;
#endif
    c[row * n + first_column + x] = sum;
}
