// register_tile_conflict_free with asynchronous copies (cp.async, from sm_80): the next tiles go
// from global to shared memory without a stop in registers. The registers that held them become
// free, so tiles can be twice as deep and barriers half as frequent. A is copied one word at a
// time, since its tile is stored transposed. Other GPUs and the host use plain loads and stores. A
// block of 256 threads computes 128 x 128 elements of C, a thread 8 x 8. The guarded build copies
// and stores word by word, and fills the outside with zeros.

#define TILE 128            // rows and columns of C per block
#define STEP 16             // depth of a tile along k
#define EDGE 8              // rows and columns of C per thread
#define HALF 64             // words between the two vectors of a fragment
#define A_WIDTH (TILE + 4)  // words per row of a_tile: four rows further is 16 banks further
#define THREADS 256
#define A_DOWN (THREADS / 8)         // rows of A that all threads copy at a time, 8 words of each
#define B_WORDS (GUARDED ? 1 : 4)    // words per copy from B
#define B_ACROSS (TILE / B_WORDS)    // copies per row of B's tile
#define B_DOWN (THREADS / B_ACROSS)  // rows of B that all threads copy at a time

#if __CUDA_ARCH__ >= 800

// Starts an asynchronous copy of WORDS words to shared memory, or stores zeros if `inside` is
// false.
template <int WORDS>
static __device__ __forceinline__ void copy(float *to, const float *from, bool inside) {
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(at), "l"(from),
                 "n"(4 * WORDS), "r"(inside ? 4 * WORDS : 0));
}

static __device__ __forceinline__ void wait_for_copies() {
    asm volatile("cp.async.wait_all;" ::: "memory");
}

#else

template <int WORDS>
static __device__ __forceinline__ void copy(float *to, const float *from, bool inside) {
    if (WORDS == 4) {
        *reinterpret_cast<float4 *>(to) = *reinterpret_cast<const float4 *>(from);
    } else {
        *to = inside ? *from : 0.0f;
    }
}

static __device__ __forceinline__ void wait_for_copies() {
}

#endif

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

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    register_tile_async(const float *a, const float *b, float *c, int n) {
    __shared__ __align__(16) float a_tile[2][STEP][A_WIDTH];
    __shared__ __align__(16) float b_tile[2][STEP][TILE];
    const unsigned thread = threadIdx.x;
    const int first_row = blockIdx.y * TILE;
    const int first_column = blockIdx.x * TILE;
    // What the thread copies of each tile: words of A, A_DOWN rows apart, and parts of rows of B.
    const int a_row = thread / 8, a_column = thread % 8;
    const int b_row = thread / B_ACROSS, b_column = thread % B_ACROSS * B_WORDS;
    const float *a_from = a + static_cast<size_t>(first_row + a_row) * n + a_column;
    const float *b_from = b + static_cast<size_t>(b_row) * n + first_column + b_column;
    const auto copy_tiles = [&](int stage, int tile) {
#pragma unroll
        for (int i = 0; i < TILE * STEP / THREADS; ++i) {
            const int row = i / 2 * A_DOWN, column = i % 2 * 8;
            const bool inside =
                !GUARDED || (first_row + a_row + row < n && tile + a_column + column < n);
            copy<1>(&a_tile[stage][a_column + column][a_row + row],
                    a_from + static_cast<size_t>(row) * n + column, inside);
        }
#pragma unroll
        for (int row = 0; row < STEP; row += B_DOWN) {
            const bool inside = !GUARDED || (tile + b_row + row < n && first_column + b_column < n);
            copy<B_WORDS>(&b_tile[stage][b_row + row][b_column],
                          b_from + static_cast<size_t>(row) * n, inside);
        }
        a_from += STEP;
        b_from += static_cast<size_t>(STEP) * n;
    };
    // Where the thread's fragments begin. Warps form a grid of 2 x 4, and their lanes one of 8 x 4.
    const unsigned warp = thread / 32, lane = thread % 32;
    const int a_at = warp / 4 * 32 + lane % 16 / 2 * 4;
    const int b_at = warp % 4 * 16 + lane / 16 * 8 + lane % 2 * 4;
    copy_tiles(0, 0);
    wait_for_copies();
    __syncthreads();  // the first tiles are complete

    float sum[EDGE][EDGE] = {};
    float a_fragment[2][EDGE], b_fragment[2][EDGE];
    read_fragment(a_fragment[0], &a_tile[0][0][a_at]);
    read_fragment(b_fragment[0], &b_tile[0][0][b_at]);
    int stage = 0;
    for (int tile = STEP; tile < n + STEP; tile += STEP) {  // the tile being copied
        if (tile < n) copy_tiles(1 - stage, tile);
#pragma unroll
        for (int k = 0; k < STEP; ++k) {
            const int used = k % 2, next = 1 - used;
            if (k < STEP - 1) {
                read_fragment(a_fragment[next], &a_tile[stage][k + 1][a_at]);
                read_fragment(b_fragment[next], &b_tile[stage][k + 1][b_at]);
            } else if (tile < n) {
                stage = 1 - stage;
                wait_for_copies();
                __syncthreads();  // all threads have read these tiles, and the next are complete
                read_fragment(a_fragment[next], &a_tile[stage][0][a_at]);
                read_fragment(b_fragment[next], &b_tile[stage][0][b_at]);
            }
            // Serpentine order: consecutive FMAs share an operand, which comes from the operand
            // reuse cache instead of the register file.
#pragma unroll
            for (int i = 0; i < EDGE; ++i) {
#pragma unroll
                for (int turn = 0; turn < EDGE; ++turn) {
                    const int j = i % 2 ? EDGE - 1 - turn : turn;
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
