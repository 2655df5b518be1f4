// outer_product with its 16 steps along k unrolled by a pragma (source T, seventh step). Without
// counter and branch, more of the issued instructions are FMAs. Addresses in the tile of A become
// constants, so the compiler can read several words with one instruction. What remains is the wait
// for global memory at the start of each tile. As before, a block of 16 x 4 threads computes 16
// rows and 64 columns of C, and a thread keeps 16 sums in registers. The guarded build fills the
// outside with zeros.

#define TILE 16
#define COLUMNS 64             // columns of C and threads per block
#define ROWS (COLUMNS / TILE)  // rows of threads

extern "C" __global__ void outer_product_unrolled(const float *a, const float *b, float *c, int n) {
    __shared__ float a_tile[TILE][TILE];
    const int x = threadIdx.x;
    const int y = threadIdx.y;
    const int first_row = blockIdx.y * TILE;
    const int column = blockIdx.x * COLUMNS + y * TILE + x;

    float sum[TILE] = {};
    for (int tile = 0; tile < n; tile += TILE) {
#pragma unroll
        for (int i = 0; i < TILE / ROWS; ++i) {
            const int r = y + i * ROWS;
#if GUARDED
            a_tile[r][x] =
                first_row + r < n && tile + x < n ? a[(first_row + r) * n + tile + x] : 0.0f;
#else
            a_tile[r][x] = a[(first_row + r) * n + tile + x];
#endif
        }
        __syncthreads();  // the tile is complete
#pragma unroll
        for (int k = 0; k < TILE; ++k) {
#if GUARDED
            const float b_element = tile + k < n && column < n ? b[(tile + k) * n + column] : 0.0f;
#else
            const float b_element = b[(tile + k) * n + column];
#endif
#pragma unroll
            for (int i = 0; i < TILE; ++i) {
                sum[i] += a_tile[i][k] * b_element;
            }
        }
        __syncthreads();  // all threads have read the tile
    }
#pragma unroll
    for (int i = 0; i < TILE; ++i) {
#if GUARDED
        if (first_row + i >= n || column >= n) continue;
#endif
        c[(first_row + i) * n + column] = sum[i];
    }
}
