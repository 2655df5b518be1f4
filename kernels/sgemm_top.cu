// FP32 SGEMM on CUDA cores for any m, n and k, with one tile shape per range of sizes. BLOCK
// selects a row of TILES: rows * 1000 + columns of C per block.
//
// register_tile_async issues all copies of a tile at once, so they queue up in front of the reads
// of fragments, and its only tile shape leaves SMs idle at small n. This kernel changes three
// things:
//
// - cp.async copies run several stages ahead and are spread over the steps along k of the main
//   loop, a few words at a time, so that no fragment waits behind them. At n = 4096 on an H200 this
//   is worth 52.4 instead of 45 to 48 TFLOP/s.
// - A thread computes up to 8 x 16 elements, so an FMA needs 0.19 words of shared memory instead of
//   0.25.
// - Small matrices get small tiles. Where even these are too few, `slices` groups of warps divide
//   the steps along k of each stage, and their sums are added in the epilogue (split-K inside a
//   block).
//
// A is stored transposed, in padded rows. The lanes of a warp form a grid of 8 x 4, and the vectors
// of a lane's fragment alternate with those of the other lanes, so fragments are read without bank
// conflicts. GPUs before sm_80 and host execution use plain loads and stores instead of cp.async.
// The guarded build fills the outside of the matrices with zeros. sgemm_top.md lists the limits of
// this kernel and the designs that were slower.

struct Tile {
    int rows, columns;                // edges of a block's tile of C
    int thread_rows, thread_columns;  // edges of a thread's part of it
    int step, stages;                 // depth of a stage along k; stages in shared memory
    int slices;                       // groups of warps that divide the steps along k of a stage
};

constexpr Tile TILES[] = {
    {128, 256, 8, 16, 16, 4, 1},  // for n >= 2048: eight warps, two per scheduler
    {192, 128, 12, 8, 16, 3, 1},  // for n = 3000, 3072, where 128 x 256 leaves SMs idle
    {128, 128, 8, 16, 16, 4, 1},  // two blocks per SM
    {96, 128, 12, 8, 32, 3, 2},   // for n = 1159, 1246, 2135
    {64, 128, 8, 8, 32, 4, 2},    // for n = 1024
    {64, 64, 8, 8, 32, 3, 4},     // for n = 1536
    {64, 32, 8, 8, 64, 3, 8},     // for n = 512
    {32, 32, 4, 8, 64, 3, 8},     // for n = 274 to 347
    {32, 16, 4, 4, 64, 3, 8},     // for n <= 256
};

constexpr Tile tile_of(int block) {
    for (const Tile &tile : TILES) {
        if (tile.rows * 1000 + tile.columns == block) return tile;
    }
    return {};
}

constexpr Tile T = tile_of(BLOCK);
constexpr int VECTOR = 4;  // words of a float4
constexpr int LANE_ROWS = 8, LANE_COLUMNS = 4;
constexpr int WARP_ROWS = LANE_ROWS * T.thread_rows, WARP_COLUMNS = LANE_COLUMNS * T.thread_columns;
constexpr int WARPS_ACROSS = T.columns / WARP_COLUMNS;
constexpr int SLICE_THREADS = T.rows / WARP_ROWS * WARPS_ACROSS * 32;
constexpr int THREADS = T.slices * SLICE_THREADS;
constexpr int SLICE_STEPS = T.step / T.slices;
constexpr int A_PITCH = T.rows + VECTOR;               // words per row of A's transposed tile
constexpr int STAGE = T.step * (A_PITCH + T.columns);  // words per stage: A's tile, then B's
constexpr int ROW_PART = 8;  // words of a row of A that neighbouring threads copy
constexpr int A_COPIES = T.rows * T.step / THREADS;  // copies of one word, per thread and stage
constexpr int A_DOWN = THREADS / ROW_PART;           // rows from one copy to the next
constexpr int A_ROWS = A_DOWN < T.rows ? T.rows / A_DOWN : 1;  // rows that a thread copies from
constexpr int GROUP = 2048 / T.rows;  // rows of tiles that concurrent blocks share
constexpr bool TALL = T.thread_rows > T.thread_columns;
static_assert(T.rows % WARP_ROWS == 0 && T.columns % WARP_COLUMNS == 0, "whole warps");
static_assert(SLICE_STEPS % 2 == 0, "two fragments");
static_assert(A_COPIES * THREADS == T.rows * T.step, "as many copies of A by each thread");

#if __CUDA_ARCH__ >= 800

// Starts an asynchronous copy of WORDS words to shared memory, or stores zeros if `inside` is
// false. Copies of 16 bytes bypass L1 (.cg); shorter copies cannot.
template <int WORDS>
static __device__ __forceinline__ void copy(float *to, const float *from, bool inside) {
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    if (WORDS == VECTOR) {
        asm volatile(
            "{ .reg .pred outside; setp.eq.s32 outside, %2, 0;\n"
            "cp.async.cg.shared.global [%0], [%1], 16, outside; }" ::"r"(at),
            "l"(from), "r"(static_cast<int>(inside)));
    } else {
        asm volatile(
            "{ .reg .pred outside; setp.eq.s32 outside, %2, 0;\n"
            "cp.async.ca.shared.global [%0], [%1], %3, outside; }" ::"r"(at),
            "l"(from), "r"(static_cast<int>(inside)), "n"(4 * WORDS));
    }
}

static __device__ __forceinline__ void end_stage() {
    asm volatile("cp.async.commit_group;");
}

// Waits until at most STAGES of the committed stages are still on their way.
template <int STAGES>
static __device__ __forceinline__ void wait_for_all_but() {
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES) : "memory");
}

// Keeps the reads of the next fragments above the FMAs of this step. The compiler would move them
// down to their first use, where every FMA waits for them.
static __device__ __forceinline__ void loads_first() {
    __syncwarp();
}

#else

template <int WORDS>
static __device__ __forceinline__ void copy(float *to, const float *from, bool inside) {
    if (WORDS == VECTOR) {
        const float4 zeros = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        *reinterpret_cast<float4 *>(to) = inside ? *reinterpret_cast<const float4 *>(from) : zeros;
    } else if (WORDS == 2) {
        const float2 zeros = make_float2(0.0f, 0.0f);
        *reinterpret_cast<float2 *>(to) = inside ? *reinterpret_cast<const float2 *>(from) : zeros;
    } else {
        *to = inside ? *from : 0.0f;
    }
}

static __device__ __forceinline__ void end_stage() {
}

template <int STAGES>
static __device__ __forceinline__ void wait_for_all_but() {
}

static __device__ __forceinline__ void loads_first() {
}

#endif

template <int EDGE, int LANES>
static __device__ __forceinline__ void read_fragment(float *fragment, const float *from) {
#pragma unroll
    for (int i = 0; i < EDGE; i += VECTOR) {
        const float4 part = *reinterpret_cast<const float4 *>(from + i * LANES);
        fragment[i] = part.x;
        fragment[i + 1] = part.y;
        fragment[i + 2] = part.z;
        fragment[i + 3] = part.w;
    }
}

static __device__ __forceinline__ float4 vector_of(const float *words) {
    return make_float4(words[0], words[1], words[2], words[3]);
}

// Stores four elements of C. If WORDS is 4, then 4 divides n, and a vector is entirely inside or
// outside.
template <int WORDS>
static __device__ __forceinline__ void store_vector(float *to, int row, int column, int m, int n,
                                                    float4 part) {
    if (GUARDED && row >= m) return;
    if (WORDS == VECTOR) {
        if (!GUARDED || column < n) *reinterpret_cast<float4 *>(to) = part;
    } else {
        if (column < n) to[0] = part.x;
        if (column + 1 < n) to[1] = part.y;
        if (column + 2 < n) to[2] = part.z;
        if (column + 3 < n) to[3] = part.w;
    }
}

// Stores a row of the thread's register tile, beginning with the vector at J.
template <int WORDS, int J = 0>
static __device__ __forceinline__ void store_row(float *to, int row, int column, int m, int n,
                                                 const float *sums) {
    store_vector<WORDS>(to, row, column, m, n, vector_of(sums));
    if constexpr (J + VECTOR < T.thread_columns) {
        constexpr int NEXT = VECTOR * LANE_COLUMNS;
        store_row<WORDS, J + VECTOR>(to + NEXT, row, column + NEXT, m, n, sums + VECTOR);
    }
}

// Outer product of two fragments in serpentine order, so that consecutive FMAs share an operand,
// which then comes from the operand reuse cache. Without it, the register file limits the loop: it
// delivers two words per cycle, and an FMA reads three.
static __device__ __forceinline__ void multiply_add(float (&sum)[T.thread_rows][T.thread_columns],
                                                    const float *a, const float *b) {
    constexpr int LONG = TALL ? T.thread_rows : T.thread_columns;
    constexpr int SHORT = TALL ? T.thread_columns : T.thread_rows;
#pragma unroll
    for (int along = 0; along < LONG; ++along) {
#pragma unroll
        for (int turn = 0; turn < SHORT; ++turn) {
            const int across = along % 2 ? SHORT - 1 - turn : turn;
            const int i = TALL ? along : across, j = TALL ? across : along;
            sum[i][j] += a[i] * b[j];
        }
    }
}

// B_WORDS is the number of words per copy of B: 4, 2 or 1, as it divides the length of a row.
template <int B_WORDS>
static __device__ void multiply(const float *a, const float *b, float *c, int m, int n, int k_end,
                                float *smem) {
    constexpr int B_ACROSS = T.columns / B_WORDS;          // copies for a row of B's tile
    constexpr int B_DOWN = THREADS / B_ACROSS;             // rows from one copy to the next
    constexpr int B_COPIES = T.step * B_ACROSS / THREADS;  // copies per thread and stage
    static_assert(B_COPIES * THREADS == T.step * B_ACROSS && B_DOWN * B_ACROSS == THREADS,
                  "as many copies of B by each thread");
    const int thread = threadIdx.x;
    // Block swizzle for L2: concurrent blocks go down GROUP tiles before they move to the next
    // column of tiles. They cover a nearly square part of C, so they share rows of A and columns of
    // B.
    const int number = blockIdx.y * gridDim.x + blockIdx.x;
    const int group = number / (GROUP * gridDim.x) * GROUP;
    const int height = min(GROUP, static_cast<int>(gridDim.y) - group);
    const int in_group = number - group * static_cast<int>(gridDim.x);
    const int first_row = (group + in_group % height) * T.rows;
    const int first_column = in_group / height * T.columns;

    // Source and destination of the thread's copies in a stage.
    const int a_row = thread / ROW_PART % T.rows;
    const int a_step = thread % ROW_PART + thread / ROW_PART / T.rows * ROW_PART;
    const int b_step = thread / B_ACROSS, b_column = thread % B_ACROSS * B_WORDS;
    const float *a_from = a + static_cast<size_t>(first_row + a_row) * k_end + a_step;
    const float *b_from = b + static_cast<size_t>(b_step) * n + first_column + b_column;
    float *const a_to = smem + a_step * A_PITCH + a_row;
    float *const b_to = smem + T.step * A_PITCH + b_step * T.columns + b_column;
    const int tiles = (k_end + T.step - 1) / T.step;
    // First step of k outside, for each of its rows of A and for its columns of B; 0 where the row
    // or column is itself outside of C. One comparison per copy then checks both edges.
    int a_end[A_ROWS];
#pragma unroll
    for (int i = 0; i < A_ROWS; ++i)
        a_end[i] = first_row + a_row + i * A_DOWN < m ? k_end : 0;
    const int b_end = first_column + b_column < n ? k_end : 0;
    // Issues copy number `part` of a stage. Behind the last tile it stores zeros that no thread
    // reads.
    const auto copy_part = [&](int part, int tile, int stage) {
        if (part < B_COPIES) {
            const int down = part * B_DOWN;
            copy<B_WORDS>(b_to + stage + down * T.columns, b_from + static_cast<size_t>(down) * n,
                          GUARDED ? tile * T.step + b_step + down < b_end : tile < tiles);
        } else {
            const int row = (part - B_COPIES) * A_DOWN % T.rows;
            const int step = (part - B_COPIES) * A_DOWN / T.rows * ROW_PART;
            copy<1>(a_to + stage + step * A_PITCH + row,
                    a_from + static_cast<size_t>(row) * k_end + step,
                    GUARDED ? tile * T.step + a_step + step < a_end[row / A_DOWN] : tile < tiles);
        }
    };
    constexpr int COPIES = A_COPIES + B_COPIES;
    // The number of steps along k over which the copies of a stage are spread. Copies of one
    // or two words need so many registers that only tiles of 8 x 8 per thread spread them.
    constexpr int SHORT_COPIES = T.thread_rows * T.thread_columns == 64 ? 4 : 1;
    constexpr int WANTED = GUARDED ? (B_WORDS == VECTOR ? 2 : SHORT_COPIES) : 5;
    constexpr int TURNS = WANTED < SLICE_STEPS ? WANTED : SLICE_STEPS - 1;
    constexpr int EVERY = (SLICE_STEPS - 1) / TURNS;
    const auto next_tile = [&] {
        end_stage();
        a_from += T.step;
        b_from += static_cast<size_t>(T.step) * n;
    };
#pragma unroll
    for (int tile = 0; tile < T.stages - 1; ++tile) {
#pragma unroll
        for (int part = 0; part < COPIES; ++part)
            copy_part(part, tile, tile * STAGE);
        next_tile();
    }

    // Where the thread's fragments begin in a tile, and with them its elements of C.
    const int slice = thread / SLICE_THREADS, own = thread % SLICE_THREADS;
    const int warp = own / 32, lane = own % 32;
    const int a_at = warp / WARPS_ACROSS * WARP_ROWS + lane % 16 / 2 * VECTOR;
    const int b_at = warp % WARPS_ACROSS * WARP_COLUMNS + (lane / 16 * 2 + lane % 2) * VECTOR;
    const float *a_read = smem + slice * SLICE_STEPS * A_PITCH + a_at;
    const float *b_read = smem + T.step * A_PITCH + slice * SLICE_STEPS * T.columns + b_at;
    float sum[T.thread_rows][T.thread_columns] = {};
    float a_fragment[2][T.thread_rows], b_fragment[2][T.thread_columns];
    const auto read_fragments = [&](int which, int at_stage, int k) {
        read_fragment<T.thread_rows, LANE_ROWS>(a_fragment[which], a_read + at_stage + k * A_PITCH);
        read_fragment<T.thread_columns, LANE_COLUMNS>(b_fragment[which],
                                                      b_read + at_stage + k * T.columns);
    };
    wait_for_all_but<T.stages - 2>();
    __syncthreads();  // the first stage is complete
    read_fragments(0, 0, 0);
    int used_stage = 0, free_stage = (T.stages - 1) * STAGE;
#pragma unroll 1
    for (int tile = T.stages - 1; tile < tiles + T.stages - 1; ++tile) {  // the tile being copied
        int next_stage = used_stage + STAGE;
        if (next_stage == T.stages * STAGE) next_stage = 0;
#pragma unroll
        for (int k = 0; k < SLICE_STEPS; ++k) {
            const int used = k % 2, next = 1 - used;
            if (k < SLICE_STEPS - 1) {
                read_fragments(next, used_stage, k + 1);
            } else {
                wait_for_all_but<T.stages - 2>();
                __syncthreads();  // the next stage is complete, and nobody reads this one any more
                read_fragments(next, next_stage, 0);
            }
            loads_first();
            if (k % EVERY == 0 && k / EVERY < TURNS) {
                const int turn = k / EVERY;
#pragma unroll
                for (int part = COPIES * turn / TURNS; part < COPIES * (turn + 1) / TURNS; ++part) {
                    copy_part(part, tile, free_stage);
                }
                if (turn == TURNS - 1) next_tile();
            }
            multiply_add(sum, a_fragment[used], b_fragment[used]);
        }
        free_stage = used_stage;
        used_stage = next_stage;
    }

    const auto row_of = [&](int i) {
        return first_row + a_at + i % VECTOR + i / VECTOR * VECTOR * LANE_ROWS;
    };
    const int column = first_column + b_at;
    if (T.slices == 1) {
#pragma unroll
        for (int i = 0; i < T.thread_rows; ++i) {
            float *to = c + static_cast<size_t>(row_of(i)) * n + column;
            store_row<B_WORDS>(to, row_of(i), column, m, n, sum[i]);
        }
        return;
    }
    // Epilogue of split-K: the stages are no longer needed, so every slice stores its sums there,
    // and each adds up its share of the vectors for all slices.
    constexpr int VECTORS_ACROSS = T.thread_columns / VECTOR;
    constexpr int VECTORS = T.thread_rows * VECTORS_ACROSS;
    float4 *const parts = reinterpret_cast<float4 *>(smem) + own;
    wait_for_all_but<0>();
    __syncthreads();  // no thread reads a stage any more
#pragma unroll
    for (int vector = 0; vector < VECTORS; ++vector) {
        parts[(slice * VECTORS + vector) * SLICE_THREADS] =
            vector_of(&sum[vector / VECTORS_ACROSS][vector % VECTORS_ACROSS * VECTOR]);
    }
    __syncthreads();  // the sums of all slices are in shared memory
    for (int vector = slice; vector < VECTORS; vector += T.slices) {
        float4 total = parts[vector * SLICE_THREADS];
#pragma unroll
        for (int other = 1; other < T.slices; ++other) {
            const float4 part = parts[(other * VECTORS + vector) * SLICE_THREADS];
            total.x += part.x;
            total.y += part.y;
            total.z += part.z;
            total.w += part.w;
        }
        const int row = row_of(vector / VECTORS_ACROSS);
        const int across = vector % VECTORS_ACROSS * VECTOR * LANE_COLUMNS;
        float *to = c + static_cast<size_t>(row) * n + column + across;
        store_vector<B_WORDS>(to, row, column + across, m, n, total);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    sgemm_top(const ELEMENT *a, const ELEMENT *b, ELEMENT *c, int m, int n, int k) {
    extern __shared__ __align__(16) float smem[];
    if (GUARDED && n % 2) {
        multiply<1>(a, b, c, m, n, k, smem);
    } else if (GUARDED && n % VECTOR) {
        multiply<2>(a, b, c, m, n, k, smem);
    } else {
        multiply<VECTOR>(a, b, c, m, n, k, smem);
    }
}
