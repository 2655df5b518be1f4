// The block kernel with the slow load order of source V: threadIdx.x and threadIdx.y exchange roles
// while the tiles are loaded, so the lanes of a warp read global memory with stride n. The sum and
// the store of C are those of the block kernel. The order of loads is therefore the only
// difference, and its price can be measured (source V: about 2 times slower).

extern "C" __global__ void block_strided(const float *a, const float *b, float *c, int n) {
    __shared__ float a_tile[BLOCK][BLOCK];
    __shared__ float b_tile[BLOCK][BLOCK];
    const int x = threadIdx.x;
    const int y = threadIdx.y;
    const int first_row = blockIdx.y * BLOCK;
    const int first_column = blockIdx.x * BLOCK;

    float sum = 0.0f;
    for (int tile = 0; tile < n; tile += BLOCK) {
#if GUARDED
        a_tile[x][y] = first_row + x < n && tile + y < n ? a[(first_row + x) * n + tile + y] : 0.0f;
        b_tile[x][y] =
            tile + x < n && first_column + y < n ? b[(tile + x) * n + first_column + y] : 0.0f;
#else
        a_tile[x][y] = a[(first_row + x) * n + tile + y];
        b_tile[x][y] = b[(tile + x) * n + first_column + y];
#endif
        __syncthreads();  // the tiles are complete
        for (int k = 0; k < BLOCK; ++k) {
            sum += a_tile[y][k] * b_tile[k][x];
        }
        __syncthreads();  // all threads have read the tiles
    }
#if GUARDED
    if (first_row + y >= n || first_column + x >= n) return;
#endif
    c[(first_row + y) * n + first_column + x] = sum;
}
