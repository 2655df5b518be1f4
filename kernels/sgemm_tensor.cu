// A float32 product on tensor cores that is as accurate as one on CUDA cores. Tensor cores multiply
// 16-bit floats of 11 significant bits, so each element is scaled by a power of two and split into
// two of them: x * scale = high + low / LOW keeps 22 to 24 bits. A tile along k then takes three
// products, the small ones first: (high * low + low * high) / LOW + high * high. The fourth, low *
// low, is too small to matter. Three products on tensor cores are still faster than one on CUDA
// cores: 141 instead of 52 TFLOP/s at n = 4096 on an H200.
//
// Tensor cores truncate sums where float32 rounds, and truncation errors do not cancel. So the
// tensor cores sum a single tile only, and its sums are added to float32 registers.
//
// A line, which is a row of A or a column of B, has one scale. It comes from the first tile and
// leaves room for larger elements later. If an element of a later tile still overflows, the scales
// are lowered, the sums so far are corrected, and the tile is split again.
//
// A block of 256 threads computes 128 x 128 elements of C. The CUDA cores split while the tensor
// cores multiply: the next tile is already in registers and is split during the products, and the
// tile after it is loaded. Warps use wgmma if the target is sm_90a, and mma.sync otherwise. The
// guarded build fills the outside with zeros and loads vectors only if 4 divides n.

#define TILE 128           // rows and columns of C per block
#define STEP 64            // depth of a tile along k
#define LINES (2 * TILE)   // rows of A's tile, then columns of B's
#define ROW (STEP / 2)     // words per line of a part, two 16-bit floats each
#define PART (TILE * ROW)  // words per part of a tile
#define STAGE (4 * PART)   // A's high and low part, then B's
#define LOW 2048.0f        // factor of low parts, 2^11
#define PITCH (LINES + 4)  // words per row of maxima; the next row is four banks further
#define BAND 8             // rows of blocks that share columns of B in L2

#define UNKNOWN (253 << 23)  // bits of 2^126, the scale until a tile lowers it

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define WGMMA 1
#else
#define WGMMA 0
#endif

// Warp tile. A thread has rows that are 8 apart, and 8 neighbouring columns of every 32.
#define WARP_ROWS (WGMMA ? 16 : 32)
#define WARP_COLUMNS (WGMMA ? TILE : 64)
#define SUMS 64  // elements of C per thread

// First row and column of the warp and of the thread, both within the block's tile.
struct Place {
    int warp_row, warp_column, row, column;
};

// Accumulator of a row (0 to 3; for wgmma 0 to 1), a group of 32 columns and one of the thread's 8
// columns there. Both instructions return sums in this order, because the columns of B's tile are
// permuted for it (see split_b).
static __device__ __forceinline__ int sum_at(int row, int group, int column) {
    const int groups = WARP_COLUMNS / 32;
    return ((row / 2 * groups + group) * 4 + column % 4) * 4 + row % 2 * 2 + column / 4;
}

// Word offset of a chunk of a line: 16 bytes, eight numbers. Lines are 128 bytes, so equal chunks
// of all lines would share four banks. The XOR swizzle distributes eight lines over all 32 banks;
// wgmma expects the same layout.
static __device__ __forceinline__ unsigned chunk_at(unsigned line, unsigned chunk) {
    return line * ROW + (chunk ^ line % 8) * 4;
}

#ifdef __CUDACC__

// Packs two floats as 16-bit floats, rounded to nearest.
static __device__ __forceinline__ unsigned pack(float first, float second) {
    unsigned word;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
    return word;
}

static __device__ __forceinline__ void unpack(unsigned word, float &first, float &second) {
    asm("{ .reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h; }"
        : "=f"(first), "=f"(second)
        : "r"(word));
}

// Maximum of `most` and the magnitudes of a pair, per half. `most` has no signs.
static __device__ __forceinline__ unsigned larger(unsigned most, unsigned word) {
    asm("{ .reg .b32 p; abs.f16x2 p, %1; max.f16x2 %0, %0, p; }" : "+r"(most) : "r"(word));
    return most;
}

// Keeps loads above the stores that follow. The compiler would move them down, and they would be
// issued too late to hide their latency.
static __device__ __forceinline__ void load_now() {
    asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
}

#if WGMMA

// Matrix descriptor of wgmma: lines of 128 bytes with the 128-byte swizzle (1 << 62), and groups of
// eight lines 1024 bytes apart (64 << 32). The unit of addresses and distances is 16 bytes.
static __device__ __forceinline__ unsigned long long described(const unsigned *matrix) {
    const unsigned long long address = __cvta_generic_to_shared(matrix);
    return (address & 0x3ffff) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

// Starts sums = a * b + (keep ? sums : 0) for 64 rows, 128 columns and 16 steps along k. It is
// asynchronous: the sums are valid only after a wait.
#define FOUR(i) "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3])
static __device__ __forceinline__ void wgmma(float (&sums)[SUMS], unsigned long long a,
                                             unsigned long long b, int keep) {
    asm volatile(
        "{ .reg .pred keep; setp.ne.b32 keep, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, keep, 1, 1, 0, 0; }\n"
        : FOUR(0), FOUR(4), FOUR(8), FOUR(12), FOUR(16), FOUR(20), FOUR(24), FOUR(28), FOUR(32),
          FOUR(36), FOUR(40), FOUR(44), FOUR(48), FOUR(52), FOUR(56), FOUR(60)
        : "l"(a), "l"(b), "r"(keep));
}

// Starts sums = high * low + low * high (SMALL) or sums += high * high for the warp tile.
template <bool SMALL>
static __device__ __forceinline__ void start(float (&sums)[SUMS], const unsigned *stage,
                                             const Place &place) {
    const unsigned long long a = described(stage + place.warp_row / 64 * 64 * ROW);
    const unsigned long long b = described(stage + 2 * PART);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < STEP / 16; ++k) {
        const int at = 2 * k;  // step k begins 32 bytes after step k - 1 in every line
        if (SMALL) {
            wgmma(sums, a + PART / 4 + at, b + at, k > 0);
            wgmma(sums, a + at, b + PART / 4 + at, 1);
        } else {
            wgmma(sums, a + at, b + at, 1);
        }
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

static __device__ __forceinline__ void finish() {
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

// Makes this thread's stores visible to wgmma, which reads shared memory through the asynchronous
// proxy.
static __device__ __forceinline__ void publish() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

#else

// Four 8 x 8 matrices of 16-bit numbers; lane l gives the address of a line of matrix l / 8.
static __device__ __forceinline__ void load_fragment(unsigned (&words)[4], const unsigned *line) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(static_cast<unsigned>(__cvta_generic_to_shared(line))));
}

// sums += a * b for 16 rows, 8 columns and 16 steps along k.
static __device__ __forceinline__ void mma(float *sums, const unsigned (&a)[4], unsigned b_first,
                                           unsigned b_second) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b_first), "r"(b_second));
}

// Computes sums = high * low + low * high (SMALL) or sums += high * high for the warp tile.
template <bool SMALL>
static __device__ __forceinline__ void start(float (&sums)[SUMS], const unsigned *stage,
                                             const Place &place) {
    const int lane = threadIdx.x % 32;
    if (SMALL) {
#pragma unroll
        for (int i = 0; i < SUMS; ++i) {
            sums[i] = 0.0f;
        }
    }
#pragma unroll 1
    for (int k = 0; k < STEP / 8; k += 2) {  // number of the chunk
        unsigned a_high[2][4], a_low[2][4];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int line = place.warp_row + 16 * i + lane % 16, chunk = k + lane / 16;
            load_fragment(a_high[i], stage + chunk_at(line, chunk));
            if (SMALL) load_fragment(a_low[i], stage + PART + chunk_at(line, chunk));
        }
#pragma unroll
        for (int j = 0; j < WARP_COLUMNS / 8; j += 2) {
            unsigned b_high[4], b_low[4];
            const int line = place.warp_column + 8 * j + lane / 16 * 8 + lane % 8;
            const int chunk = k + lane / 8 % 2;
            load_fragment(b_high, stage + 2 * PART + chunk_at(line, chunk));
            if (SMALL) load_fragment(b_low, stage + 3 * PART + chunk_at(line, chunk));
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int row = i / 2, half = i % 2 * 2;
                float *to = sums + (row * (WARP_COLUMNS / 8) + j + i % 2) * 4;
                if (SMALL) {
                    mma(to, a_low[row], b_high[half], b_high[half + 1]);
                    mma(to, a_high[row], b_low[half], b_low[half + 1]);
                } else {
                    mma(to, a_high[row], b_high[half], b_high[half + 1]);
                }
            }
        }
    }
}

static __device__ __forceinline__ void finish() {
}

static __device__ __forceinline__ void publish() {
}

#endif
#else  // host execution, without tensor cores: a thread computes its own sums from the same words

static unsigned pack(float first, float second) {
    return host_to_half(second) << 16 | host_to_half(first);
}

static void unpack(unsigned word, float &first, float &second) {
    first = host_from_half(word & 0xffff);
    second = host_from_half(word >> 16);
}

static unsigned larger(unsigned most, unsigned word) {
    const unsigned first = max(most & 0x7fff, word & 0x7fff);
    return max(most >> 16, word >> 16 & 0x7fff) << 16 | first;
}

static void load_now() {
}

// Reads two neighbours along k from the word where ldmatrix would read them.
static void read_pair(float (&pair)[2], const unsigned *part, int line, int k) {
    unpack(host_tensor_operand(part + chunk_at(line, k / 8) + k % 8 / 2), pair[0], pair[1]);
}

template <bool SMALL>
static void start(float (&sums)[SUMS], const unsigned *stage, const Place &place) {
    for (int i = 0; SMALL && i < SUMS; ++i) {
        sums[i] = 0.0f;
    }
    const unsigned *b = stage + 2 * PART;
    for (int k = 0; k < STEP; k += 2) {
        float a_high[4][2], a_low[4][2], b_high[2], b_low[2];
        for (int row = 0; row < 4; ++row) {
            read_pair(a_high[row], stage, place.row + 8 * row, k);
            if (SMALL) read_pair(a_low[row], stage + PART, place.row + 8 * row, k);
        }
        for (int j = 0; j < 16; ++j) {
            // The line of B's tile for this column of a group of 32: the permutation of split_b.
            const int group = j / 8, column = place.column - place.warp_column + j % 8;
            const int line = place.warp_column + 32 * group + column % 4 * 8 + column / 4;
            read_pair(b_high, b, line, k);
            if (SMALL) read_pair(b_low, b + PART, line, k);
            for (int row = 0; row < 4; ++row) {
                float &sum = sums[sum_at(row, group, j % 8)];
                for (int i = 0; i < 2; ++i) {
                    if (SMALL) sum += a_low[row][i] * b_high[i];
                    sum += a_high[row][i] * (SMALL ? b_low : b_high)[i];
                }
            }
        }
    }
}

static void finish() {
}

static void publish() {
}

#endif

static __device__ __forceinline__ float largest(float4 part) {
    return fmaxf(fmaxf(fabsf(part.x), fabsf(part.y)), fmaxf(fabsf(part.z), fabsf(part.w)));
}

static __device__ __forceinline__ float component(float4 part, int i) {
    return i == 0 ? part.x : i == 1 ? part.y : i == 2 ? part.z : part.w;
}

// Splits eight elements of a line, and stores their high parts and, PART words behind, their low
// parts. `most` collects magnitudes, so that a single test per tile detects overflow.
static __device__ __forceinline__ void split(unsigned *to, const float *elements, float scale,
                                             unsigned &most) {
    unsigned high[4], low[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float first = elements[2 * i] * scale, second = elements[2 * i + 1] * scale;
        high[i] = pack(first, second);
        most = larger(most, high[i]);
        float first_high, second_high;
        unpack(high[i], first_high, second_high);
        low[i] = pack((first - first_high) * LOW, (second - second_high) * LOW);
    }
    *reinterpret_cast<uint4 *>(to) = make_uint4(high[0], high[1], high[2], high[3]);
    *reinterpret_cast<uint4 *>(to + PART) = make_uint4(low[0], low[1], low[2], low[3]);
}

// Loads four elements of a row, from (row, column), which `from` points to; zeros outside.
static __device__ __forceinline__ float4 load_part(const float *from, int row, int column, int n) {
#if GUARDED
    const bool inside = row < n;
    if (n % 4 != 0) {
        return make_float4(
            inside && column < n ? from[0] : 0.0f, inside && column + 1 < n ? from[1] : 0.0f,
            inside && column + 2 < n ? from[2] : 0.0f, inside && column + 3 < n ? from[3] : 0.0f);
    }
    if (!inside || column >= n) return make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#endif
    return *reinterpret_cast<const float4 *>(from);
}

static __device__ __forceinline__ void store_part(float *to, int row, int column, int n,
                                                  const float *part) {
#if GUARDED
    const bool inside = row < n;
    if (n % 4 != 0) {
        if (inside && column < n) to[0] = part[0];
        if (inside && column + 1 < n) to[1] = part[1];
        if (inside && column + 2 < n) to[2] = part[2];
        if (inside && column + 3 < n) to[3] = part[3];
        return;
    }
    if (!inside || column >= n) return;
#endif
    *reinterpret_cast<float4 *>(to) = make_float4(part[0], part[1], part[2], part[3]);
}

extern "C" __global__ void __launch_bounds__(256, 1)
    sgemm_tensor(const float *a, const float *b, float *c, int n) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800     // older GPUs have no such instructions
    extern __shared__ __align__(1024) unsigned smem[];  // two stages
    float *scales = reinterpret_cast<float *>(smem + 2 * STAGE);  // scale of each line
    float *ratios = scales + LINES;  // new scale over old scale of each line
    float *maxima = ratios + LINES;  // eight partial maxima of each line
    const unsigned thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
    // Block swizzle for L2: concurrent blocks cover a rectangle of C, so they share rows of A and
    // columns of B.
    const unsigned number = blockIdx.y * gridDim.x + blockIdx.x, width = BAND * gridDim.x;
    const unsigned band = number / width * BAND, within = number % width;
    const unsigned height = gridDim.y - band < BAND ? gridDim.y - band : BAND;
    const int first_row = (band + within % height) * TILE;
    const int first_column = within / height * TILE;
    const int tiles = (n + STEP - 1) / STEP;

    // The thread's share of a tile: rows a_row, + 4, + 8 and + 12 of A, and four columns of B from
    // b_column. A chunk has four neighbours along k, and the four that are 32 further. A and B use
    // the same order, so it changes no product.
    const int a_row = 16 * warp + lane / 8, a_chunk = lane % 8;
    const int b_column = warp % 4 * 32 + lane % 8 * 4, b_chunk = warp / 4 * 4 + lane / 8;
    float4 of_a[8], of_b[8];
    auto load_a = [&](int i, int tile) {
        const int row = first_row + a_row + 4 * i, k = tile * STEP + 4 * a_chunk;
        const float *from = a + static_cast<unsigned>(row) * n + k;
        of_a[2 * i] = load_part(from, row, k, n);
        of_a[2 * i + 1] = load_part(from + 32, row, k + 32, n);
    };
    auto load_b = [&](int tile) {
        const int k = tile * STEP + 4 * b_chunk, column = first_column + b_column;
        unsigned from = static_cast<unsigned>(k) * n + column;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            of_b[i] = load_part(b + from, k + i % 4 + i / 4 * 32, column, n);
            from += i == 3 ? 29 * n : n;
        }
    };
    unsigned most = 0;  // largest magnitudes of the tile that is being split
    auto split_a = [&](int i, int stage) {
        const int row = a_row + 4 * i;
        const float4 p = of_a[2 * i], q = of_a[2 * i + 1];
        const float elements[8] = {p.x, p.y, p.z, p.w, q.x, q.y, q.z, q.w};
        unsigned *to = smem + stage * STAGE + chunk_at(row, a_chunk);
        split(to, elements, scales[row], most);
    };
    auto split_b = [&](int stage) {
        const float4 scale = *reinterpret_cast<const float4 *>(scales + TILE + b_column);
        // Four neighbouring columns go to lines that are 8 apart. The lanes of one store then write
        // eight neighbouring lines, which the swizzle puts into different banks.
        unsigned *to = smem + stage * STAGE + 2 * PART;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            float elements[8];
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                elements[i] = component(of_b[i], j);
            }
            split(to + chunk_at(warp % 4 * 32 + 8 * j + lane % 8, b_chunk), elements,
                  component(scale, j), most);
        }
    };

    const int warp_row = warp / (TILE / WARP_COLUMNS) * WARP_ROWS;
    const int warp_column = warp % (TILE / WARP_COLUMNS) * WARP_COLUMNS;
    const int own_row = warp_row + lane / 4, own_column = warp_column + lane % 4 * 8;
    const Place place = {warp_row, warp_column, own_row, own_column};
    float sums[SUMS] = {}, of_tile[SUMS];
    scales[thread] = __int_as_float(UNKNOWN);
    // Multiplies a tile. `meanwhile` and `then` run on the CUDA cores while the tensor cores
    // compute the small products and the large one.
    auto multiply = [&](int tile, auto meanwhile, auto then) {
        const unsigned *stage = smem + tile % 2 * STAGE;
        start<true>(of_tile, stage, place);
        meanwhile();
        finish();
#pragma unroll
        for (int i = 0; i < SUMS; ++i) {
            of_tile[i] *= 1.0f / LOW;
        }
        start<false>(of_tile, stage, place);
        then();
        finish();
#pragma unroll
        for (int i = 0; i < SUMS; ++i) {
            sums[i] += of_tile[i];
        }
    };
    bool fits;
    int tile = 0;
    do {
        // First tile, or overflow in this one: lower the scales until the tile fits, then split it.
        float4 column_maxima = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        load_b(tile);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            column_maxima.x = fmaxf(column_maxima.x, fabsf(of_b[i].x));
            column_maxima.y = fmaxf(column_maxima.y, fabsf(of_b[i].y));
            column_maxima.z = fmaxf(column_maxima.z, fabsf(of_b[i].z));
            column_maxima.w = fmaxf(column_maxima.w, fabsf(of_b[i].w));
        }
        *reinterpret_cast<float4 *>(maxima + b_chunk * PITCH + TILE + b_column) = column_maxima;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            load_a(i, tile);
            const float row_maximum = fmaxf(largest(of_a[2 * i]), largest(of_a[2 * i + 1]));
            maxima[a_chunk * PITCH + a_row + 4 * i] = row_maximum;
        }
        __syncthreads();  // the maxima are complete
        float line_maximum = 0.0f;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            line_maximum = fmaxf(line_maximum, maxima[i * PITCH + thread]);
        }
        // Exponents of the scales. They put the largest element of a line between 2^12 and 2^13, so
        // a later element may be eight times larger before it overflows.
        const int old = __float_as_int(scales[thread]) >> 23;
        const int now = min(old, 2 * 127 + 12 - (__float_as_int(line_maximum) >> 23));
        scales[thread] = __int_as_float(now << 23);
        ratios[thread] = __int_as_float(max(127 + now - old, 0) << 23);
        __syncthreads();  // the scales are complete
        if (tile > 0) {
#pragma unroll
            for (int i = 0; i < SUMS; ++i) {
                const int group = i / 8 % (WARP_COLUMNS / 32), row = i / (WARP_COLUMNS / 4);
                sums[sum_at(row, group, i % 8)] *=
                    ratios[place.row + 8 * row] * ratios[TILE + place.column + 32 * group + i % 8];
            }
        }
        split_b(tile % 2);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            split_a(i, tile % 2);
        }
        if (tile + 1 < tiles) {
            load_b(tile + 1);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                load_a(i, tile + 1);
            }
        }
        publish();
        __syncthreads();  // the tile is split

        fits = true;
        while (tile + 1 < tiles && fits) {
            const int next = tile + 1;
            most = 0;
            multiply(
                tile,
                [&] {
                    split_b(next % 2);
                    if (next + 1 < tiles) load_b(next + 1);
                    load_now();
                },
                [&] {
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        split_a(i, next % 2);
                        if (next + 1 < tiles) load_a(i, next + 1);
                        load_now();
                    }
                });
            publish();
            // The next tile is split, and nobody reads this one any more. An overflowed element is
            // infinite: then the tile does not fit, and the outer loop repeats it.
            fits = !__syncthreads_or((most & 0x7fff) >= 0x7c00 || most >> 16 >= 0x7c00);
            tile = next;
        }
    } while (!fits);
    multiply(tile, [] {}, [] {});
#pragma unroll
    for (int i = 0; i < SUMS; i += 8) {
        const int group = i / 8 % (WARP_COLUMNS / 32), row = i / (WARP_COLUMNS / 4);
        const int column = place.column + 32 * group;
        // Scales are powers of two: negating the exponent inverts them.
        const int undone = 2 * 127 << 23;
        const float of_row = __int_as_float(undone - __float_as_int(scales[place.row + 8 * row]));
        float elements[8];
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            const float of_column =
                __int_as_float(undone - __float_as_int(scales[TILE + column + j]));
            const float sum = sums[sum_at(row, group, j)];
            elements[j] = sum * fminf(of_row, of_column) * fmaxf(of_row, of_column);
        }
        const int c_row = first_row + place.row + 8 * row, c_column = first_column + column;
        float *to = c + static_cast<size_t>(c_row) * n + c_column;
        store_part(to, c_row, c_column, n, elements);
        store_part(to + 4, c_row, c_column + 4, n, elements + 4);
    }
#endif
}
