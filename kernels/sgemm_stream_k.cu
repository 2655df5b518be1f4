// FP32 SGEMM whose work is divided evenly among the blocks (stream-K), so that sizes between
// multiples of the tile are as fast as the multiples. BLOCK selects a row of TILES: rows * 1000 +
// columns of C per tile.
//
// In sgemm_top a block computes one tile, and the last wave of tiles leaves SMs idle: with 140
// tiles on 132 SMs, the second wave keeps eight of them busy. Here at most one block per SM is
// launched. Most tiles are multiplied by one block each; the last ones, fewer than two per block,
// are one long sequence of stages of k, of which every block gets an equal part. At n = 708 on an
// H200 this reaches 1.07 times the speed of cuBLAS, and sgemm_top 0.89 times.
//
// A block may thus begin one tile and complete another one. It begins its tile first, stores the
// sums in C, and announces them on a board in global memory. At the end it completes the tile that
// the block before it has begun, and adds the sums in C to its own. No workspace is needed.
//
// The kernel is warp-specialised. A producer warp fills stages of shared memory by the bulk tensor
// copy engine (TMA), which also writes the zeros outside of the matrices, so the main loop has no
// bounds checks. The engine needs rows aligned to 16 bytes. If 4 does not divide their length,
// four warps copy short rows by asynchronous copies of one or two words (n = 942: 55.6 instead of
// 58.3 us), and `pad_rows` has copied long ones to longer ones. Each block describes both matrices
// by tensor maps, which it makes in shared memory and copies to global memory. mbarriers signal
// that a stage is full or empty.
//
// Eight warps multiply, with a register tile per thread; `slices` groups of them divide the steps
// along k of a stage. A's tile is not transposed, as the engine cannot do that. It has lines of 32
// steps along k, and an XOR swizzle of chunks of 16 bytes puts eight rows into different banks.
//
// In host execution, the warps that multiply copy one stage, and the block that completes a tile
// also begins it. sgemm_stream_k.md lists figures and the designs that were slower.

struct Tile {
    int rows, columns;                // edges of a tile of C
    int thread_rows, thread_columns;  // edges of a thread's part of it
    int step, stages;                 // depth of a stage along k; stages in shared memory
    int slices;                       // groups of warps that divide the steps along k of a stage
};

constexpr Tile TILES[] = {
    {128, 192, 8, 12, 32, 5, 1},  // fastest for most n >= 3500
    {112, 96, 7, 12, 32, 4, 2},   // fastest for n = 1114
    {64, 96, 8, 12, 32, 5, 4},    // for most n >= 1300
    {88, 64, 11, 8, 32, 7, 4},    // for n = 801, 1733, 2689
    {112, 48, 7, 12, 32, 7, 4},   // for n = 1093, 1538
    {72, 64, 9, 8, 32, 8, 4},     // for n = 705, 1076
    {64, 48, 8, 12, 64, 4, 8},    // for n = 624, 1249
    {56, 48, 7, 12, 64, 5, 8},    // for n = 526, 569
    {64, 64, 8, 8, 32, 8, 4},     // slower, kept for earlier recordings
    {192, 128, 12, 8, 32, 5, 1},  // slower, kept for earlier recordings
    {96, 128, 12, 8, 32, 4, 2},   // slower, kept for earlier recordings
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
constexpr int MULTIPLIERS = T.slices * SLICE_THREADS, PRODUCERS = 128;
constexpr int THREADS = MULTIPLIERS + PRODUCERS;
constexpr int SLICE_STEPS = T.step / T.slices;
constexpr int LINE = 32;                            // steps along k in a line of A's tile
constexpr int A_TILE = T.rows * T.step;             // words of A's tile, in lines of LINE steps
constexpr int STAGE = A_TILE + T.columns * T.step;  // words of a stage
// Words for sums in shared memory: those of all slices, or with one slice a vector per thread.
constexpr int SUMS = T.slices > 1 ? T.slices * T.rows * T.columns : MULTIPLIERS * VECTOR;
constexpr int MAP = 32;  // words of a tensor map
// Steps along k of a row of A that a thread reads at once; two where the register tile leaves no
// room for four.
constexpr int READ = T.thread_rows * T.thread_columns > 64 ? 2 : 4;
constexpr int TURN = 2 * VECTOR;      // steps along k per iteration of the main loop
constexpr int GROUP = 2048 / T.rows;  // rows of tiles that concurrent blocks share
constexpr int MOST_COPIES = 900;      // for a row that needs more, `pad_rows` copies instead
constexpr int MOST_BLOCKS = 256, PLACES = 8;  // room on the board: blocks, launches
static_assert(T.rows % WARP_ROWS == 0 && T.columns % WARP_COLUMNS == 0, "whole warps");
static_assert(T.step % LINE == 0 && SLICE_STEPS % TURN == 0, "whole lines and turns");
static_assert(MULTIPLIERS == 256, "eight warps");
static_assert(4 * (T.stages * STAGE + SUMS) > 116 * 1024, "one block per multiprocessor");

// Word offsets in a stage of an element of A's and of B's tile.
static __device__ __forceinline__ int a_place(int row, int step) {
    const int chunk = step % LINE / VECTOR ^ row % 8;
    return step / LINE * T.rows * LINE + row * LINE + chunk * VECTOR + step % VECTOR;
}

static __device__ __forceinline__ int b_place(int step, int column) {
    return A_TILE + step * T.columns + column;
}

// Words per copy of rows that the bulk copy engine cannot read; 0 if it can, or if `pad_rows` has
// copied them, because a row would need more than MOST_COPIES copies.
static __device__ __forceinline__ int copied_words(int n, int k) {
    if (!GUARDED || (n % VECTOR == 0 && k % VECTOR == 0)) return 0;
    const int words = n % 2 == 0 && k % 2 == 0 ? 2 : 1;
    return max(n, k) <= MOST_COPIES * words ? words : 0;
}

#ifdef __CUDACC__

static __device__ __forceinline__ unsigned address_of(const void *shared) {
    return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}

static __device__ __forceinline__ void barrier_init(unsigned barrier, unsigned count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

static __device__ __forceinline__ void barrier_arrive(unsigned barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

static __device__ __forceinline__ void barrier_expect(unsigned barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}

static __device__ __forceinline__ void barrier_wait(unsigned barrier, unsigned parity) {
    asm volatile(
        "{ .reg .pred done;\n"
        "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again; }\n" ::"r"(barrier),
        "r"(parity)
        : "memory");
}

// Arrives when all former asynchronous copies of the thread are complete.
static __device__ __forceinline__ void barrier_follow(unsigned barrier) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

// Barrier of the threads that multiply, without the producer.
static __device__ __forceinline__ void meet() {
    asm volatile("barrier.sync 1, %0;" ::"n"(MULTIPLIERS) : "memory");
}

// The board: for each block, the address in C of the tile that it has begun. Concurrent launches
// write to different addresses, so one board serves them all. The block that waits for an entry
// removes it, so the board is empty at the end of a launch.
__device__ unsigned long long board[MOST_BLOCKS][PLACES];

static __device__ __forceinline__ void tell(const float *part, bool speaks) {
    const unsigned long long key = reinterpret_cast<unsigned long long>(part);
    __threadfence();
    meet();  // all sums are stored
    if (!speaks) return;
    for (int i = 0; atomicCAS(&board[blockIdx.x][i % PLACES], 0ull, key); ++i) {
    }
}

static __device__ __forceinline__ void wait_for(const float *part, bool listens) {
    const unsigned long long key = reinterpret_cast<unsigned long long>(part);
    if (listens) {
        for (int i = 0; atomicCAS(&board[blockIdx.x - 1][i % PLACES], key, 0ull) != key; ++i) {
        }
        __threadfence();
    }
    meet();
}

// Two tensor maps per SM, since an SM runs one block of this kernel at a time.
__device__ __align__(128) unsigned maps[MOST_BLOCKS][2 * MAP];

// Copies tiles of A in lane 0, and of B in lane 1, of the producer warp.
struct Copier {
    unsigned long long map;

    // Makes the tensor map in shared memory at `own`, and copies it to global memory, where the
    // engine reads it.
    __device__ __forceinline__ Copier(int lane, const float *a, const float *b, int m, int n, int k,
                                      float *own) {
        own[lane] = own[MAP + lane] = 0.0f;
        __syncwarp();
        if (lane < 2) {
            const bool of_b = lane == 1;
            const unsigned rows = of_b ? k : m, columns = of_b ? n : k;
            const unsigned box_rows = of_b ? T.step : T.rows, box_columns = of_b ? T.columns : LINE;
            const unsigned long long distance = (columns + VECTOR - 1) / VECTOR * 16ull;
            const unsigned at = address_of(own + lane * MAP);
            asm volatile(
                "tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;\n"
                "tensormap.replace.tile.rank.shared::cta.b1024.b32 [%0], 1;\n"
                "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%0], 0, %2;\n"
                "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%0], 1, %3;\n"
                "tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 0, %4;\n"
                "tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 1, %5;\n"
                "tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%0], 0, %6;\n"
                "tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%0], 0, 1;\n"
                "tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%0], 1, 1;\n"
                "tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%0], 7;\n"  // 7: float32
                "tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [%0], 0;\n"
                "tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [%0], 0;\n" ::"r"(at),
                "l"(of_b ? b : a), "r"(box_columns), "r"(box_rows), "r"(columns), "r"(rows),
                "l"(distance)
                : "memory");
            if (of_b) {
                asm volatile(
                    "tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%0], 0;" ::"r"(at)
                    : "memory");
            } else {  // A: 128-byte swizzle, which exchanges chunks of 16 bytes
                asm volatile(
                    "tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%0], 3;" ::"r"(at)
                    : "memory");
            }
        }
        __syncwarp();
        unsigned multiprocessor;
        asm volatile("mov.u32 %0, %smid;" : "=r"(multiprocessor));
        const unsigned *const place = maps[multiprocessor % MOST_BLOCKS];
        for (int i = 0; i < 2; ++i) {
            asm volatile(
                "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu"
                ".sync.aligned [%0], [%1], 128;" ::"l"(place + i * MAP),
                "r"(address_of(own + i * MAP))
                : "memory");
        }
        map = reinterpret_cast<unsigned long long>(place + lane % 2 * MAP);
        asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
    }

    __device__ __forceinline__ void copy(unsigned to, int column, int row, unsigned barrier) const {
        asm volatile(
            "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
            " [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
            "l"(map), "r"(column), "r"(row), "r"(barrier)
            : "memory");
    }
};

// Starts an asynchronous copy of WORDS words to shared memory, or of zeros if `inside` is false.
template <int WORDS>
static __device__ __forceinline__ void copy_words(unsigned to, const float *from, bool inside) {
    asm volatile(
        "{ .reg .pred outside; setp.eq.s32 outside, %2, 0;\n"
        "cp.async.ca.shared.global [%0], [%1], %3, outside; }" ::"r"(to),
        "l"(from), "r"(static_cast<int>(inside)), "n"(4 * WORDS)
        : "memory");
}

// Copies tiles WORDS words at a time, by all threads of the producers, from rows that the bulk copy
// engine cannot read.
template <int WORDS>
struct WordCopier {
    static constexpr int THREADS_OF_A = LINE / WORDS, A_DOWN = PRODUCERS / THREADS_OF_A;
    static constexpr int B_PARTS = T.columns / WORDS > PRODUCERS ? 2 : 1;  // parts of a copied row
    static constexpr int THREADS_OF_B = T.columns / WORDS / B_PARTS;
    static constexpr int B_DOWN = T.columns % 3 == 0 ? 96 / THREADS_OF_B : PRODUCERS / THREADS_OF_B;
    static_assert(T.rows % A_DOWN == 0 && B_DOWN > 0 && T.step % B_DOWN == 0, "whole copies");
    const float *a, *b;
    int a_row, a_step, b_step, b_column;

    __device__ __forceinline__ WordCopier(int thread, const float *a, const float *b)
        : a(a),
          b(b),
          a_row(thread / THREADS_OF_A),
          a_step(thread % THREADS_OF_A * WORDS),
          b_step(thread / THREADS_OF_B),
          b_column(thread % THREADS_OF_B * WORDS) {
    }

    // Copies a stage of the tiles at `row` and `column`, from step `first` of k on.
    __device__ __forceinline__ void copy(unsigned to, int row, int column, int first, int m, int n,
                                         int k) const {
#pragma unroll
        for (int line = 0; line < T.step; line += LINE) {
            const int step = first + line + a_step, rows = step < k ? m - row - a_row : 0;
            const float *from = a + static_cast<size_t>(row + a_row) * k + step;
            const unsigned place = to + 4 * a_place(a_row, line + a_step);
#pragma unroll
            for (int down = 0; down < T.rows; down += A_DOWN) {
                // The swizzle of row a_row + down: A_DOWN is a power of two.
                const unsigned at = (place ^ down % 8 * VECTOR * 4) + 4 * LINE * down;
                copy_words<WORDS>(at, from, down < rows);
                from += static_cast<size_t>(A_DOWN) * k;
            }
        }
        if (b_step >= B_DOWN) return;
#pragma unroll
        for (int part = 0; part < B_PARTS; ++part) {
            const int across = b_column + part * THREADS_OF_B * WORDS;
            const int steps = column + across < n ? k - first - b_step : 0;
            const float *from = b + static_cast<size_t>(first + b_step) * n + column + across;
            const unsigned place = to + 4 * b_place(b_step, across);
#pragma unroll
            for (int down = 0; down < T.step; down += B_DOWN) {
                copy_words<WORDS>(place + 4 * T.columns * down, from, down < steps);
                from += static_cast<size_t>(B_DOWN) * n;
            }
        }
    }
};

// Keeps the reads of the next fragments above the FMAs of this step. The compiler would move them
// down to their first use, where every FMA waits for them.
static __device__ __forceinline__ void loads_first() {
    __syncwarp();
}

#else

static __device__ __forceinline__ void meet() {
    __syncthreads();
}

static __device__ __forceinline__ void tell(const float *, bool) {
}

static __device__ __forceinline__ void wait_for(const float *, bool) {
    __syncthreads();  // all sums are stored
}

static __device__ __forceinline__ void loads_first() {
}

#endif

// Outer product of two fragments in serpentine order, so that consecutive FMAs share an element of
// A, or one of B, which then comes from the operand reuse cache. Without it, the register file
// limits the loop: it delivers two words per cycle, and an FMA reads three.
static __device__ __forceinline__ void multiply_add(float (&sum)[T.thread_rows][T.thread_columns],
                                                    const float (&a)[T.thread_rows][READ], int step,
                                                    const float *b) {
#pragma unroll
    for (int i = 0; i < T.thread_rows; ++i) {
#pragma unroll
        for (int turn = 0; turn < T.thread_columns; ++turn) {
            const int j = i % 2 ? T.thread_columns - 1 - turn : turn;
            sum[i][j] += a[i][step] * b[j];
        }
    }
}

// The tiles of a block, in order, with the stages of k from `begin` to `end` of each.
struct Work {
    int rows, columns, stages;  // C in tiles; stages per tile along k
    int whole, count;           // tiles that this block computes alone; all of its tiles
    long long first, last;      // its part of the stages that all blocks share

    __device__ __forceinline__ Work(int m, int n, int k)
        : rows((m + T.rows - 1) / T.rows),
          columns((n + T.columns - 1) / T.columns),
          stages((k + T.step - 1) / T.step) {
        const int tiles = rows * columns, blocks = gridDim.x, block = blockIdx.x;
        whole = tiles / blocks - (tiles % blocks != 0);
        const long long shared = static_cast<long long>(tiles - whole * blocks) * stages;
        first = shared * block / blocks;
        last = shared * (block + 1) / blocks;
        count = whole + static_cast<int>((last + stages - 1) / stages - first / stages);
    }

    // Sets the row, column and stages of tile number i: 0 is the tile that the block begins for its
    // successor, the last is the one that it completes.
    __device__ __forceinline__ void part(int i, int &row, int &column, int &begin, int &end) const {
        int tile = blockIdx.x + i * gridDim.x;
        begin = 0;
        end = stages;
        if (count > whole) {
            tile -= gridDim.x;
            if (i == 0 || i > whole) {
                const int shared =
                    static_cast<int>(first / stages) + (i == 0 ? count - whole - 1 : count - 1 - i);
                const long long from = static_cast<long long>(shared) * stages;
                begin = first > from ? static_cast<int>(first - from) : 0;
                end = last - from < stages ? static_cast<int>(last - from) : stages;
                tile = whole * gridDim.x + shared;
            }
        }
        // Block swizzle for L2: concurrent blocks go down GROUP tiles before they move to the next
        // column of tiles. They cover a nearly square part of C, so they share rows of A and
        // columns of B.
        const int group = tile / (GROUP * columns) * GROUP, within = tile - group * columns;
        const int height = min(GROUP, rows - group);
        row = (group + within % height) * T.rows;
        column = within / height * T.columns;
    }
};

static __device__ __forceinline__ int row_of(int i) {
    return i * LANE_ROWS;
}

// The thread's share of C and its fragments: READ steps of A in each row row_of(i), and vectors of
// B, which alternate with those of the other lanes.
struct Place {
    int slice, own, a, b;
    const float *smem;

    __device__ __forceinline__ Place(const float *stages) : smem(stages) {
        const int thread = threadIdx.x;
        slice = thread / SLICE_THREADS;
        own = thread % SLICE_THREADS;
        const int warp = own / 32, lane = own % 32;
        a = warp / WARPS_ACROSS * WARP_ROWS + lane % 16 / 2;
        b = warp % WARPS_ACROSS * WARP_COLUMNS + (lane / 16 * 2 + lane % 2) * VECTOR;
    }

    // Reads READ steps of A, beginning with `step` of the iteration whose first step is at `from`.
    __device__ __forceinline__ void read_a(float (&fragment)[T.thread_rows][READ], int from,
                                           int step) const {
        const float *place = smem + (step < VECTOR ? from : from ^ VECTOR) + step % VECTOR;
#pragma unroll
        for (int i = 0; i < T.thread_rows; ++i) {
            const float *at = place + row_of(i) * LINE;
            if (READ == 4) {
                const float4 part = *reinterpret_cast<const float4 *>(at);
                fragment[i][0] = part.x;
                fragment[i][1] = part.y;
                fragment[i][READ - 2] = part.z;
                fragment[i][READ - 1] = part.w;
            } else {
                const float2 part = *reinterpret_cast<const float2 *>(at);
                fragment[i][0] = part.x;
                fragment[i][1] = part.y;
            }
        }
    }

    __device__ __forceinline__ void read_b(float *fragment, int from, int step) const {
        const float *place = smem + from + step * T.columns;
#pragma unroll
        for (int j = 0; j < T.thread_columns; j += VECTOR) {
            const float4 part = *reinterpret_cast<const float4 *>(place + j * LANE_COLUMNS);
            fragment[j] = part.x;
            fragment[j + 1] = part.y;
            fragment[j + 2] = part.z;
            fragment[j + 3] = part.w;
        }
    }
};

// A vector of sums whose pairs are exchanged, or with its pairs exchanged back. ptxas gives the
// words of a vector consecutive registers, so an element of B and the sums of its column would be
// in the same register bank, and an FMA would need two cycles.
static __device__ __forceinline__ float4 exchanged(float first, float second, float third,
                                                   float fourth) {
    return make_float4(second, first, fourth, third);
}

// A vector of C: its address, and the number of its words inside, at most 0 if there is none.
struct Target {
    float *to;
    int left;

    __device__ __forceinline__ float4 read() const {
        float4 words = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (left > 0) words.x = __ldcg(to);
        if (left > 1) words.y = __ldcg(to + 1);
        if (left > 2) words.z = __ldcg(to + 2);
        if (left > 3) words.w = __ldcg(to + 3);
        return words;
    }

    // `aligned`: rows of C begin at multiples of 16 bytes.
    __device__ __forceinline__ void write(float4 total, bool aligned) const {
        if (aligned) {
            if (left > 0) *reinterpret_cast<float4 *>(to) = total;
            return;
        }
        if (left > 0) to[0] = total.x;
        if (left > 1) to[1] = total.y;
        if (left > 2) to[2] = total.z;
        if (left > 3) to[3] = total.w;
    }
};

static __device__ __forceinline__ float4 added(float4 a, float4 b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

// Epilogue: every slice stores its sums in shared memory, and each adds up its share of the vectors
// for all slices. One slice has its vectors there one at a time. `begun`: another block has stored
// the sums of the first stages in C.
static __device__ __forceinline__ void store(const Place &at,
                                             float (&sum)[T.thread_rows][T.thread_columns],
                                             float *tile, int row, int column, int m, int n,
                                             float *smem, bool begun) {
    constexpr int VECTORS_ACROSS = T.thread_columns / VECTOR;
    constexpr int VECTORS = T.thread_rows * VECTORS_ACROSS,
                  SHARE = (VECTORS + T.slices - 1) / T.slices;
    float4 *const parts = reinterpret_cast<float4 *>(smem) + at.own;
    const bool aligned = !GUARDED || n % VECTOR == 0;
    const auto target = [&](int vector) {
        const int down = at.a + row_of(vector / VECTORS_ACROSS);
        const int across = at.b + vector % VECTORS_ACROSS * VECTOR * LANE_COLUMNS;
        const int left = GUARDED && row + down >= m ? 0 : GUARDED ? n - column - across : VECTOR;
        return Target{tile + static_cast<size_t>(down) * n + across, left};
    };
    const auto put = [&](int vector, float4 *to) {
        const float *from = &sum[vector / VECTORS_ACROSS][vector % VECTORS_ACROSS * VECTOR];
        *to = exchanged(from[0], from[1], from[2], from[3]);
    };
    meet();  // no thread reads the sums of the previous tile any more
    if (T.slices > 1) {
#pragma unroll
        for (int vector = 0; vector < VECTORS; ++vector) {
            put(vector, &parts[(at.slice * VECTORS + vector) * SLICE_THREADS]);
        }
    }
    if (begun) {
        wait_for(tile, threadIdx.x == 0);
    } else {
        meet();  // the sums of all slices are in shared memory
    }
    // With several slices, registers are free for all earlier sums, whose latencies overlap.
    float4 before[SHARE];
    const auto vector_of = [&](int i) { return T.slices == 1 ? i : at.slice + i * T.slices; };
    const auto read = [&](int i) {
        if (vector_of(i) < VECTORS) before[i] = target(vector_of(i)).read();
    };
#pragma unroll
    for (int i = 0; i < SHARE; ++i) {
        before[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (T.slices > 1 && begun) read(i);
    }
#pragma unroll
    for (int i = 0; i < SHARE; ++i) {
        const int vector = vector_of(i);
        if (vector >= VECTORS) continue;
        if (T.slices == 1) {
            if (begun) read(i);
            put(vector, parts);
            loads_first();
        }
        float4 total = parts[T.slices == 1 ? 0 : vector * SLICE_THREADS];
#pragma unroll
        for (int other = 1; other < T.slices; ++other) {
            total = added(total, parts[(other * VECTORS + vector) * SLICE_THREADS]);
        }
        total = exchanged(total.x, total.y, total.z, total.w);
        target(vector).write(added(total, before[i]), aligned);
    }
}

static __device__ __forceinline__ void multiply(const float *a, const float *b, float *c, int m,
                                                int n, int k, float *smem) {
    const Work work(m, n, k);
    const int words = copied_words(n, k);
    int row, column, begin, end;
#ifdef __CUDACC__
    const unsigned full = address_of(smem + T.stages * STAGE + SUMS + 2 * MAP);
    const unsigned empty = full + 8 * T.stages;
    int slot = 0;
    unsigned phase = 0;
    const auto next_slot = [&] {
        if (++slot == T.stages) {
            slot = 0;
            phase ^= 1;
        }
    };
    if (threadIdx.x == 0) {
        for (int i = 0; i < T.stages; ++i) {
            barrier_init(full + 8 * i, words ? PRODUCERS : 1);
            barrier_init(empty + 8 * i, MULTIPLIERS / 32);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (__shfl_sync(0xffffffffu, threadIdx.x / 32, 0) >= MULTIPLIERS / 32) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        const auto copy_all = [&](const auto &copier) {
            for (int i = 0; i < work.count; ++i) {
                work.part(i, row, column, begin, end);
#pragma unroll 1
                for (int stage = begin; stage < end; ++stage) {
                    barrier_wait(empty + 8 * slot, phase ^ 1);
                    copier.copy(address_of(smem + slot * STAGE), row, column, stage * T.step, m, n,
                                k);
                    barrier_follow(full + 8 * slot);
                    next_slot();
                }
            }
        };
        if (GUARDED && words == 2) {
            copy_all(WordCopier<2>(threadIdx.x - MULTIPLIERS, a, b));
            return;
        }
        if (GUARDED && words == 1) {
            copy_all(WordCopier<1>(threadIdx.x - MULTIPLIERS, a, b));
            return;
        }
        if (threadIdx.x >= MULTIPLIERS + 32) return;
        const int lane = threadIdx.x % 32;
        const Copier copier(lane, a, b, m, n, k, smem + T.stages * STAGE + SUMS);
        for (int i = 0; i < work.count; ++i) {
            work.part(i, row, column, begin, end);
#pragma unroll 1
            for (int stage = begin; stage < end; ++stage) {
                const unsigned to = address_of(smem + slot * STAGE), barrier = full + 8 * slot;
                barrier_wait(empty + 8 * slot, phase ^ 1);
                if (lane == 0) barrier_expect(barrier, 4 * STAGE);
                __syncwarp();
                if (lane == 0) {
#pragma unroll
                    for (int step = 0; step < T.step; step += LINE) {
                        copier.copy(to + 4 * T.rows * step, stage * T.step + step, row, barrier);
                    }
                } else if (lane == 1) {
                    copier.copy(to + 4 * A_TILE, column, stage * T.step, barrier);
                }
                next_slot();
            }
        }
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
#else
    if (threadIdx.x >= MULTIPLIERS) return;
#endif
    const Place at(smem);
    const int first_step = at.slice * SLICE_STEPS;
    float sum[T.thread_rows][T.thread_columns];
    float a_fragment[2][T.thread_rows][READ], b_fragment[2][T.thread_columns];
    const auto multiply_part = [&](int begin, int end) {
        float *const tile = c + static_cast<size_t>(row) * n + column;
#pragma unroll
        for (int r = 0; r < T.thread_rows; ++r) {
#pragma unroll
            for (int j = 0; j < T.thread_columns; ++j) {
                sum[r][j] = 0.0f;
            }
        }
#ifdef __CUDACC__
        barrier_wait(full + 8 * slot, phase);
        int a_from = slot * STAGE + a_place(at.a, first_step);
        int b_from = slot * STAGE + b_place(first_step, at.b);
        at.read_a(a_fragment[0], a_from, 0);
        at.read_b(b_fragment[0], b_from, 0);
#pragma unroll 1
        for (int stage = begin; stage < end; ++stage) {
            const int used_slot = slot;
#pragma unroll 1
            for (int turn = TURN; turn <= SLICE_STEPS; turn += TURN) {  // the next iteration
                int a_next = used_slot * STAGE + a_place(at.a, first_step + turn);
                int b_next = b_from + TURN * T.columns;
#pragma unroll
                for (int step = 0; step < TURN; ++step) {
                    if (step == TURN - READ && turn == SLICE_STEPS) {
                        next_slot();
                        if (stage + 1 < end) barrier_wait(full + 8 * slot, phase);
                        // Behind the last stage, fragments of the same stage are read again, and
                        // not used.
                        const int next = (stage + 1 < end ? slot : used_slot) * STAGE;
                        a_next = next + a_place(at.a, first_step);
                        b_next = next + b_place(first_step, at.b);
                    }
                    const int read = step / READ % 2;
                    if (step % READ == 0 && step + READ < TURN) {
                        at.read_a(a_fragment[1 - read], a_from, step + READ);
                    } else if (step == TURN - READ) {
                        at.read_a(a_fragment[0], a_next, 0);
                    }
                    if (step + 1 < TURN) {
                        at.read_b(b_fragment[1 - step % 2], b_from, step + 1);
                    } else {
                        at.read_b(b_fragment[0], b_next, 0);
                    }
                    loads_first();
                    multiply_add(sum, a_fragment[read], step % READ, b_fragment[step % 2]);
                }
                a_from = a_next;
                b_from = b_next;
            }
            __syncwarp();
            if (threadIdx.x % 32 == 0) barrier_arrive(empty + 8 * used_slot);
        }
#else
        for (int stage = begin; stage < end; ++stage) {
            __syncthreads();  // no thread reads the previous stage any more
            const size_t a_width = words ? k : (k + VECTOR - 1) / VECTOR * VECTOR;
            const size_t b_width = words ? n : (n + VECTOR - 1) / VECTOR * VECTOR;
            for (int i = threadIdx.x; i < A_TILE; i += MULTIPLIERS) {
                const int at_row = row + i / T.step, step = stage * T.step + i % T.step;
                smem[a_place(i / T.step, i % T.step)] =
                    at_row < m && step < k ? a[at_row * a_width + step] : 0.0f;
            }
            for (int i = threadIdx.x; i < T.columns * T.step; i += MULTIPLIERS) {
                const int at_column = column + i % T.columns, step = stage * T.step + i / T.columns;
                smem[b_place(i / T.columns, i % T.columns)] =
                    at_column < n && step < k ? b[step * b_width + at_column] : 0.0f;
            }
            __syncthreads();  // the stage is complete
            for (int step = 0; step < SLICE_STEPS; ++step) {
                const int turn = first_step + step / TURN * TURN, within = step % TURN;
                if (step % READ == 0) at.read_a(a_fragment[0], a_place(at.a, turn), within);
                at.read_b(b_fragment[0], b_place(turn, at.b), within);
                multiply_add(sum, a_fragment[0], step % READ, b_fragment[0]);
            }
        }
#endif
        store(at, sum, tile, row, column, m, n, smem + T.stages * STAGE, begin > 0);
        if (end < work.stages) tell(tile, threadIdx.x == 0);
    };
    for (int i = 0; i < work.count; ++i) {
        work.part(i, row, column, begin, end);
#ifndef __CUDACC__
        if (end < work.stages) continue;  // the block that completes a tile also begins it
        if (begin > 0) multiply_part(0, begin);
#endif
        multiply_part(begin, end);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    sgemm_stream_k(const ELEMENT *a, const ELEMENT *b, ELEMENT *c, int m, int n, int k) {
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(1024) float smem[];  // stages, sums of slices, maps, barriers
    multiply(a, b, c, m, n, k, smem);
#endif
}
