// tile_transposed_b with one word of padding behind each row of b_tile. The words of a column are
// then BLOCK + 1 apart, so each lane finds its own bank and the conflicts of the sum disappear
// (source T, fifth step). With BLOCK 16, a warp stores two rows of b_tile at once and these now
// collide: one slow store for 16 fast reads is a good trade. The host has transposed B. The guarded
// build fills the outside with zeros.

extern "C" __global__ void tile_conflict_free(const float *a, const float *bt, float *c, int n) {
    __shared__ float a_tile[BLOCK][BLOCK];
    __shared__ float b_tile[BLOCK][BLOCK + 1];  // [column of B][row of B]
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
