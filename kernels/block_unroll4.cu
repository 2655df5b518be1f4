// The block kernel with a quarter of the threads: each one loads four elements of each tile and
// computes four elements of C in one column, BLOCK/4 rows apart. An element of B that was read from
// shared memory then serves four FMAs from a register, so an FMA needs 1.25 words from shared
// memory instead of two. Shared memory limited the block kernel, which is why this is the fastest
// kernel of source V (Table 6). The guarded build fills the outside of the matrices with zeros.

#define ROWS (BLOCK / 4)  // distance between the four rows of a thread

extern "C" __global__ void block_unroll4(const float *a, const float *b, float *c, int n) {
    __shared__ float a_tile[BLOCK][BLOCK];
    __shared__ float b_tile[BLOCK][BLOCK];
    const int x = threadIdx.x;
    const int y = threadIdx.y;
    const int first_row = blockIdx.y * BLOCK;
    const int column = blockIdx.x * BLOCK + x;

    float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int tile = 0; tile < n; tile += BLOCK) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int r = y + i * ROWS;
#if GUARDED
            a_tile[r][x] =
                first_row + r < n && tile + x < n ? a[(first_row + r) * n + tile + x] : 0.0f;
            b_tile[r][x] = tile + r < n && column < n ? b[(tile + r) * n + column] : 0.0f;
#else
            a_tile[r][x] = a[(first_row + r) * n + tile + x];
            b_tile[r][x] = b[(tile + r) * n + column];
#endif
        }
        __syncthreads();  // the tiles are complete
        for (int k = 0; k < BLOCK; ++k) {
            const float b_element = b_tile[k][x];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                sum[i] += a_tile[y + i * ROWS][k] * b_element;
            }
        }
        __syncthreads();  // all threads have read the tiles
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int row = first_row + y + i * ROWS;
#if GUARDED
        if (row >= n || column >= n) continue;
#endif
        c[row * n + column] = sum[i];
    }
}
