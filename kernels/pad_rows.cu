// Copies A and B to rows that are aligned to 16 bytes. The bulk tensor copy engine (TMA), which
// feeds sgemm_stream_k, cannot read other rows, so this copy precedes the product if 4 does not
// divide the length of a row. Each row and column is as long as the next multiple of 4, and zeros
// fill the space beyond the matrices. The padded B precedes the padded A. A launch with fewer
// blocks copies A only; with m = 0 it copies B only.
//
// A block of eight warps copies 64 x 64 words, and a warp eight rows of them, word by word: lanes
// read and store consecutive words. All words are loaded before the first is stored, so that their
// latencies overlap.

#define EDGE 64  // rows and columns that a block copies
#define WARPS 8
#define ROWS (EDGE / WARPS)  // rows that a warp copies
#define PARTS (EDGE / 32)    // words of a row that a lane copies

static __device__ __forceinline__ int padded(int edge) {
    return (edge + 3) / 4 * 4;
}

static __device__ __forceinline__ int blocks(int edge) {
    return (padded(edge) + EDGE - 1) / EDGE;
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, 8)
    pad_rows(const ELEMENT *a, const ELEMENT *b, ELEMENT *c, int m, int n, int k) {
    const int of_a = blocks(m) * blocks(k);  // blocks that copy A
    const bool is_a = static_cast<int>(blockIdx.x) < of_a;
    const int rows = is_a ? m : k, columns = is_a ? k : n, width = padded(columns);
    const int block = blockIdx.x - (is_a ? 0 : of_a), down = block / blocks(columns);
    const float *from = is_a ? a : b;
    float *to = is_a ? c + static_cast<size_t>(padded(n)) * padded(k) : c;
    const int first_row = down * EDGE + threadIdx.x / 32 * ROWS;
    const int first_column = (block - down * blocks(columns)) * EDGE + threadIdx.x % 32;
    from += static_cast<size_t>(first_row) * columns + first_column;
    to += static_cast<size_t>(first_row) * width + first_column;
    float loaded[ROWS][PARTS];
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
#pragma unroll
        for (int j = 0; j < PARTS; ++j) {
            const bool inside = first_row + i < rows && first_column + 32 * j < columns;
            loaded[i][j] = inside ? from[static_cast<size_t>(i) * columns + 32 * j] : 0.0f;
        }
    }
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
#pragma unroll
        for (int j = 0; j < PARTS; ++j) {
            if (first_row + i < padded(rows) && first_column + 32 * j < width) {
                to[static_cast<size_t>(i) * width + 32 * j] = loaded[i][j];
            }
        }
    }
}
