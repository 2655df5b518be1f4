// register_tile with everything fetched one step ahead, because there each tile begins with a wait
// for global memory (source G, its second kernel). Shared memory has two stages of tiles: one is
// multiplied while the other is filled, through registers. Fragments are doubled as well, so the
// next one is read from shared memory while this one is multiplied. One barrier per tile remains. A
// block of 256 threads computes 128 x 128 elements of C, a thread 8 x 8. The guarded build loads
// and stores word by word, and fills the outside with zeros.

#define TILE 128  // rows and columns of C per block
#define STEP 8    // depth of a tile along k
#define EDGE 8    // rows and columns of C per thread
#define HALF 4    // words between the two vectors of a fragment

// Loads four elements of a row, from (row, column), which `from` points to; zeros outside.
static __device__ __forceinline__ float4 load_part(const float *from, int row, int column, int n) {
#if GUARDED
    const bool inside = row < n;
    return make_float4(
        inside && column < n ? from[0] : 0.0f, inside && column + 1 < n ? from[1] : 0.0f,
        inside && column + 2 < n ? from[2] : 0.0f, inside && column + 3 < n ? from[3] : 0.0f);
#else
    return *reinterpret_cast<const float4 *>(from);
#endif
}

static __device__ __forceinline__ void store_part(float *to, int row, int column, int n,
                                                  const float *part) {
#if GUARDED
    const bool inside = row < n;
    if (inside && column < n) to[0] = part[0];
    if (inside && column + 1 < n) to[1] = part[1];
    if (inside && column + 2 < n) to[2] = part[2];
    if (inside && column + 3 < n) to[3] = part[3];
#else
    *reinterpret_cast<float4 *>(to) = make_float4(part[0], part[1], part[2], part[3]);
#endif
}

// Reads eight elements of a row of a tile: four at `row`, and four that are HALF words further.
static __device__ __forceinline__ void read_fragment(float *fragment, const float *row) {
    const float4 first = *reinterpret_cast<const float4 *>(row);
    const float4 second = *reinterpret_cast<const float4 *>(row + HALF);
    fragment[0] = first.x;
    fragment[1] = first.y;
    fragment[2] = first.z;
    fragment[3] = first.w;
    fragment[4] = second.x;
    fragment[5] = second.y;
    fragment[6] = second.z;
    fragment[7] = second.w;
}

// Stores four elements of a row of A in a column of its transposed tile.
static __device__ __forceinline__ void store_transposed(float *at, float4 part) {
    at[0] = part.x;
    at[TILE] = part.y;
    at[2 * TILE] = part.z;
    at[3 * TILE] = part.w;
}

extern "C" __global__ void __launch_bounds__(256, 2)
    register_tile_double_buffered(const float *a, const float *b, float *c, int n) {
    __shared__ __align__(16) float a_tile[2][STEP][TILE];
    __shared__ __align__(16) float b_tile[2][STEP][TILE];
    const unsigned thread = threadIdx.x;
    const int first_row = blockIdx.y * TILE;
    const int first_column = blockIdx.x * TILE;
    // What the thread loads of each tile: four words of a row of A, and four of a row of B.
    const int a_row = thread / 2, a_column = thread % 2 * 4;
    const int b_row = thread / 32, b_column = thread % 32 * 4;
    unsigned a_from = static_cast<unsigned>(first_row + a_row) * n + a_column;
    unsigned b_from = static_cast<unsigned>(b_row) * n + first_column + b_column;
    // Where the thread's fragments begin. The threads form a grid of 16 x 16.
    const int a_at = thread / 16 * EDGE;
    const int b_at = thread % 16 * EDGE;
    float4 a_part = load_part(a + a_from, first_row + a_row, a_column, n);
    float4 b_part = load_part(b + b_from, b_row, first_column + b_column, n);
    store_transposed(&a_tile[0][a_column][a_row], a_part);
    *reinterpret_cast<float4 *>(&b_tile[0][b_row][b_column]) = b_part;
    __syncthreads();  // the first tiles are complete

    float sum[EDGE][EDGE] = {};
    float a_fragment[2][EDGE], b_fragment[2][EDGE];
    read_fragment(a_fragment[0], &a_tile[0][0][a_at]);
    read_fragment(b_fragment[0], &b_tile[0][0][b_at]);
    int stage = 0;
    for (int tile = STEP; tile < n + STEP; tile += STEP) {  // the tile being loaded
        if (tile < n) {
            a_from += STEP;
            b_from += STEP * n;
            a_part = load_part(a + a_from, first_row + a_row, tile + a_column, n);
            b_part = load_part(b + b_from, tile + b_row, first_column + b_column, n);
        }
#pragma unroll
        for (int k = 0; k < STEP; ++k) {
            const int used = k % 2, next = 1 - used;
            if (k < STEP - 1) {
                read_fragment(a_fragment[next], &a_tile[stage][k + 1][a_at]);
                read_fragment(b_fragment[next], &b_tile[stage][k + 1][b_at]);
            } else if (tile < n) {
                stage = 1 - stage;
                store_transposed(&a_tile[stage][a_column][a_row], a_part);
                *reinterpret_cast<float4 *>(&b_tile[stage][b_row][b_column]) = b_part;
                __syncthreads();  // all threads have read these tiles, and the next are complete
                read_fragment(a_fragment[next], &a_tile[stage][0][a_at]);
                read_fragment(b_fragment[next], &b_tile[stage][0][b_at]);
            }
#pragma unroll
            for (int i = 0; i < EDGE; ++i) {
#pragma unroll
                for (int j = 0; j < EDGE; ++j) {
                    sum[i][j] += a_fragment[used][i] * b_fragment[used][j];
                }
            }
        }
    }
#pragma unroll
    for (int i = 0; i < EDGE; ++i) {
        const int row = first_row + a_at + i % 4 + i / 4 * HALF;
        float *to = c + static_cast<size_t>(row) * n + first_column + b_at;
        store_part(to, row, first_column + b_at, n, sum[i]);
        store_part(to + HALF, row, first_column + b_at + HALF, n, sum[i] + 4);
    }
}
