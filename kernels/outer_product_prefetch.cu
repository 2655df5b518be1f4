// outer_product_unrolled with two tiles of A in shared memory (source T, eighth step). While one
// tile is multiplied, the elements of the next are already on their way from global memory, first
// into registers, so no FMA waits for them. Two buffers also remove one of the two barriers per
// tile, because no thread reads the buffer that is written. The price is more registers. As
// before, a block of 16 x 4 threads computes 16 rows and 64 columns of C, and a thread keeps 16
// sums in registers. The guarded build fills the outside with zeros.

#define TILE 16
#define COLUMNS 64             // columns of C and threads per block
#define ROWS (COLUMNS / TILE)  // rows of threads
#define PARTS (TILE / ROWS)    // elements of a tile that a thread loads

static __device__ __forceinline__ float element(const float *matrix, int row, int column, int n) {
#if GUARDED
    return row < n && column < n ? matrix[row * n + column] : 0.0f;
#else
    return matrix[row * n + column];
#endif
}

extern "C" __global__ void outer_product_prefetch(const float *a, const float *b, float *c, int n) {
    __shared__ float a_tile[2][TILE][TILE];
    const int x = threadIdx.x;
    const int y = threadIdx.y;
    const int first_row = blockIdx.y * TILE;
    const int column = blockIdx.x * COLUMNS + y * TILE + x;

#pragma unroll
    for (int i = 0; i < PARTS; ++i) {
        a_tile[0][y + i * ROWS][x] = element(a, first_row + y + i * ROWS, x, n);
    }
    __syncthreads();  // the first tile is complete

    float sum[TILE] = {};
    int used = 0;
    for (int tile = 0; tile < n; tile += TILE) {
        const bool more = tile + TILE < n;
        float next[PARTS];
        if (more) {
#pragma unroll
            for (int i = 0; i < PARTS; ++i) {
                next[i] = element(a, first_row + y + i * ROWS, tile + TILE + x, n);
            }
        }
#pragma unroll
        for (int k = 0; k < TILE; ++k) {
            const float b_element = element(b, tile + k, column, n);
#pragma unroll
            for (int i = 0; i < TILE; ++i) {
                sum[i] += a_tile[used][i][k] * b_element;
            }
        }
        used = 1 - used;
        if (more) {
#pragma unroll
            for (int i = 0; i < PARTS; ++i) {
                a_tile[used][y + i * ROWS][x] = next[i];
            }
        }
        __syncthreads();  // all threads have read this tile, and the next is complete
    }
#pragma unroll
    for (int i = 0; i < TILE; ++i) {
#if GUARDED
        if (first_row + i >= n || column >= n) continue;
#endif
        c[(first_row + i) * n + column] = sum[i];
    }
}
