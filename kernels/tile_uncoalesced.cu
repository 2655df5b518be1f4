// Tiles alone are not enough (source T, third step of its ladder). A and B pass through BLOCK x
// BLOCK tiles in shared memory, but the tile of B is loaded with threadIdx.x along its ROWS. The
// lanes of a warp therefore read global memory with stride n, and their stores go down a column of
// the tile, whose words are in one bank. The sum reads both tiles without bank conflicts, so the
// loads are the only thing left to mend. The guarded build fills the outside with zeros.

extern "C" __global__ void tile_uncoalesced(const float *a, const float *b, float *c, int n) {
    __shared__ float a_tile[BLOCK][BLOCK];
    __shared__ float b_tile[BLOCK][BLOCK];
    const int x = threadIdx.x;
    const int y = threadIdx.y;
    const int row = blockIdx.y * BLOCK + y;
    const int first_column = blockIdx.x * BLOCK;

    float sum = 0.0f;
    for (int tile = 0; tile < n; tile += BLOCK) {
#if GUARDED
        a_tile[y][x] = row < n && tile + x < n ? a[row * n + tile + x] : 0.0f;
        b_tile[x][y] =
            tile + x < n && first_column + y < n ? b[(tile + x) * n + first_column + y] : 0.0f;
#else
        a_tile[y][x] = a[row * n + tile + x];
        b_tile[x][y] = b[(tile + x) * n + first_column + y];
#endif
        __syncthreads();  // the tiles are complete
        for (int k = 0; k < BLOCK; ++k) {
            sum += a_tile[y][k] * b_tile[k][x];
        }
        __syncthreads();  // all threads have read the tiles
    }
#if GUARDED
    if (row >= n || first_column + x >= n) return;
#endif
    c[row * n + first_column + x] = sum;
}
