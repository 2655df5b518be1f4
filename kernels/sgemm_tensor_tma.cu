// sgemm_tensor with the operands split beforehand, for compute capability 9.0. There every block
// splits its tiles itself, so a row of A is split again for every column of tiles. Here
// `split_parts` has split each operand once, into images of 128 lines and 64 steps along k with a
// high and a low 16-bit part; `a` and `b` are these images. At n = 4096 on an H200 the kernel takes
// 0.65 to 0.67 ms instead of 0.97 ms.
//
// The kernel is persistent and warp-specialised. At most one block per SM computes tiles of 128 x
// 128 elements of C, one after the other. A producer warp copies images to three stages of shared
// memory by the bulk copy engine (TMA). Two warpgroups multiply them by wgmma, 64 rows each.
// mbarriers signal that a stage is full or empty, so that no warp waits for a block-wide barrier.
//
// A tile along k takes three products: high * high, and high * low + low * high, which is LOW times
// too large and therefore has accumulators of its own. Tensor cores truncate sums, so the sums of
// CHUNK tiles are added to float32 registers, which round; the scales are undone there too. If few
// products are summed, rounding adds little error and truncation would dominate, so the sums of
// every tile are added where k has at most SHORT tiles.
//
// Host execution uses one stage, and all threads copy and wait at __syncthreads.

#define TILE 128                     // rows and columns of C per block, lines of an image
#define STEP 64                      // depth of an image along k
#define PART (TILE * STEP * 2)       // bytes per part of an image
#define IMAGE (2 * PART + 4 * TILE)  // bytes of an image, with inverse scales
#define SLOT (2 * PART + 1024)       // bytes of an image in shared memory, aligned
#define STAGES 3
#define LOW 2048.0f       // factor of low parts, 2^11
#define CHUNK 4           // tiles along k, with one scale, that the tensor cores sum
#define SHORT 10          // if k has at most so many tiles, they sum one tile at a time
#define BAND 12           // rows of tiles that share columns of B in L2
#define BUFFER (16 * 33)  // words per warp, to store a part of C

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

// Starts a bulk copy of an image to shared memory; `barrier` counts its bytes.
static __device__ __forceinline__ void copy_image(unsigned to, const char *from, unsigned barrier) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
            "r"(to),
        "l"(from), "r"(IMAGE), "r"(barrier)
        : "memory");
}

// Matrix descriptor of wgmma: lines of 128 bytes with the 128-byte swizzle (1 << 62), and groups of
// eight lines 1024 bytes apart (64 << 32). The unit of addresses and distances is 16 bytes.
static __device__ __forceinline__ unsigned long long described(unsigned address) {
    return (address & 0x3ffff) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

// Starts sums = a * b + (keep ? sums : 0) for 64 rows, 128 columns and 16 steps along k. It is
// asynchronous: the sums are valid only after a wait.
#define FOUR(i) "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3])
static __device__ __forceinline__ void wgmma(float (&sums)[64], unsigned long long a,
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

// Waits until at most LEFT groups of wgmma of this warp are still running.
template <int LEFT>
static __device__ __forceinline__ void finish() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}

// Starts the products of two images for 64 rows, beginning with `row`.
static __device__ __forceinline__ void start(float (&large)[64], float (&small)[64], unsigned stage,
                                             unsigned row, int keep) {
    const unsigned long long a = described(stage + row * 128), b = described(stage + SLOT);
    const int low = PART / 16;
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int i = 0; i < STEP / 16; ++i) {
        const int at = 2 * i;  // step i begins 32 bytes after step i - 1 in every line
        wgmma(small, a + at, b + low + at, keep + i);
        wgmma(large, a + at, b + at, keep + i);
        wgmma(small, a + low + at, b + at, 1);
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

#else

// Reads two neighbours along k of a line of a part.
static void read_pair(float (&pair)[2], const char *part, int line, int k) {
    const char *at = part + line * 128 + (k / 8 ^ line % 8) * 16 + k % 8 * 2;
    const unsigned word = host_tensor_operand(reinterpret_cast<const unsigned *>(at));
    pair[0] = host_from_half(word & 0xffff);
    pair[1] = host_from_half(word >> 16);
}

// Computes the products of two images for one thread's elements of C.
static void start(float (&large)[64], float (&small)[64], const char *stage, int row, int lane,
                  int keep) {
    for (int i = 0; !keep && i < 64; ++i) {
        large[i] = small[i] = 0.0f;
    }
    for (int k = 0; k < STEP; k += 2) {
        float a_high[2][2], a_low[2][2];
        for (int i = 0; i < 2; ++i) {
            read_pair(a_high[i], stage, row + 8 * i, k);
            read_pair(a_low[i], stage + PART, row + 8 * i, k);
        }
        for (int j = 0; j < 32; ++j) {
            float b_high[2], b_low[2];
            const int column = j / 2 * 8 + lane % 4 * 2 + j % 2;
            read_pair(b_high, stage + SLOT, column, k);
            read_pair(b_low, stage + SLOT + PART, column, k);
            for (int i = 0; i < 2; ++i) {
                const int at = j / 2 * 4 + 2 * i + j % 2;
                for (int e = 0; e < 2; ++e) {
                    small[at] += a_high[i][e] * b_low[e] + a_low[i][e] * b_high[e];
                    large[at] += a_high[i][e] * b_high[e];
                }
            }
        }
    }
}

#endif

// Undoes the scales of the tensor cores' sums and adds them to the thread's float32 sums. Number 4
// * j + 2 * i + e is the element of row own_row + 8 * i and column 8 * j + lane % 4 * 2 + e.
static __device__ __forceinline__ void promote(float (&sums)[64], const float (&large)[64],
                                               const float (&small)[64], const char *stage,
                                               int own_row, int lane) {
    const float *of_rows = reinterpret_cast<const float *>(stage + 2 * PART) + own_row;
    const float of_row[2] = {of_rows[0], of_rows[8]};
#pragma unroll
    for (int j = 0; j < 16; ++j) {
        const float2 of_columns =
            *reinterpret_cast<const float2 *>(stage + SLOT + 2 * PART + 32 * j + lane % 4 * 8);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float scale = of_row[i / 2] * (i % 2 ? of_columns.y : of_columns.x);
            const float sum = fmaf(small[4 * j + i], 1.0f / LOW, large[4 * j + i]);
            sums[4 * j + i] = fmaf(sum, scale, sums[4 * j + i]);
        }
    }
}

// Row and column of a tile. Concurrent blocks cover a rectangle of C, so they share rows of A and
// columns of B in L2.
static __device__ __forceinline__ void place(int tile, int rows, int columns, int &row,
                                             int &column) {
    const int band = tile / (BAND * columns), within = tile % (BAND * columns);
    const int height = min(BAND, rows - band * BAND);
    row = (band * BAND + within % height) * TILE;
    column = within / height * TILE;
}

extern "C" __global__ void __launch_bounds__(384, 1)
    sgemm_tensor_tma(const ELEMENT *a, const ELEMENT *b, ELEMENT *c, int m, int n, int k) {
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(1024) char smem[];  // stages, store buffers of warps, mbarriers
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int rows = (m + TILE - 1) / TILE, columns = (n + TILE - 1) / TILE;
    const int steps = (k + STEP - 1) / STEP, tiles = rows * columns;
    const char *a_images = reinterpret_cast<const char *>(a);
    const char *b_images = reinterpret_cast<const char *>(b);
    const size_t line = static_cast<size_t>(steps) * IMAGE;  // bytes of a row or column of images
#ifdef __CUDACC__
    const unsigned stages = address_of(smem);
    const unsigned full = stages + STAGES * 2 * SLOT + 8 * BUFFER * 4, empty = full + 8 * STAGES;
    unsigned slot = 0, phase = 0;
    auto next = [&] {
        if (++slot == STAGES) {
            slot = 0;
            phase ^= 1;
        }
    };
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) {
            barrier_init(full + 8 * i, 1);
            barrier_init(empty + 8 * i, 256);  // all threads of the two warpgroups arrive
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (__shfl_sync(0xffffffffu, warp, 0) < 4) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x > 31) return;
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            int row, column;
            place(tile, rows, columns, row, column);
            const char *from_a = a_images + row / TILE * line;
            const char *from_b = b_images + column / TILE * line;
            for (int step = 0; step < steps; ++step) {
                const unsigned stage = stages + slot * 2 * SLOT, barrier = full + 8 * slot;
                barrier_wait(empty + 8 * slot, phase ^ 1);
                if (lane == 0) {
                    barrier_expect(barrier, 2 * IMAGE);
                    copy_image(stage, from_a, barrier);
                    copy_image(stage + SLOT, from_b, barrier);
                }
                __syncwarp();
                from_a += IMAGE;
                from_b += IMAGE;
                next();
            }
        }
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    auto release = [&](unsigned which) {
        __syncwarp();
        barrier_arrive(empty + 8 * which);
    };
#endif
    const unsigned first = (warp - 4) / 4 * 64;  // first row of the warpgroup
    const int own_row = first + warp % 4 * 16 + lane / 4;
    float large[64], small[64], sums[64];
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        int row, column;
        place(tile, rows, columns, row, column);
#pragma unroll
        for (int i = 0; i < 64; ++i) {
            sums[i] = 0.0f;
        }
        for (int step = 0; step < steps;) {
            const int count = steps > SHORT ? min(CHUNK, steps - step) : 1;
            step += count;
#ifdef __CUDACC__
            unsigned before = 0;
            for (int i = 0; i < count; ++i) {
                barrier_wait(full + 8 * slot, phase);
                start(large, small, stages + slot * 2 * SLOT, first, i);
                if (i > 0) {
                    finish<1>();
                    release(before);
                }
                before = slot;
                if (i + 1 < count) next();
            }
            finish<0>();
#pragma unroll
            for (int i = 0; i < 64; ++i) {  // no read of sums moves above the wait
                asm volatile("" : "+f"(large[i]), "+f"(small[i])::"memory");
            }
            promote(sums, large, small, smem + slot * 2 * SLOT, own_row, lane);
            release(slot);
            next();
#else
            for (int i = 0; i < count; ++i) {
                __syncthreads();  // no thread reads the previous images any more
                const char *from[2] = {
                    a_images + row / TILE * line + (step - count + i) * size_t(IMAGE),
                    b_images + column / TILE * line + (step - count + i) * size_t(IMAGE)};
                for (int at = threadIdx.x * 16; at < 2 * IMAGE; at += 384 * 16) {
                    const int which = at / IMAGE, byte = at % IMAGE;
                    *reinterpret_cast<uint4 *>(smem + which * SLOT + byte) =
                        *reinterpret_cast<const uint4 *>(from[which] + byte);
                }
                __syncthreads();  // the images are complete
                if (warp >= 4) start(large, small, smem, own_row, lane, i);
            }
            if (warp >= 4) promote(sums, large, small, smem, own_row, lane);
#endif
        }
#ifndef __CUDACC__
        if (warp < 4) continue;
#endif
        const int c_row = row + own_row, c_column = column + lane % 4 * 2;
#ifdef __CUDACC__
        if (GUARDED && n % 2 != 0) {
            // Pairs would not be aligned in rows of odd length, and single words from this layout
            // would not be coalesced. Through shared memory, a warp stores 32 neighbours of a row.
            float *buffer =
                reinterpret_cast<float *>(smem + STAGES * 2 * SLOT) + (warp - 4) * BUFFER;
#pragma unroll
            for (int part = 0; part < 4; ++part) {
#pragma unroll
                for (int i = 0; i < 16; ++i) {
                    const int at = (lane / 4 + i / 2 % 2 * 8) * 33 + i / 4 * 8;
                    buffer[at + lane % 4 * 2 + i % 2] = sums[16 * part + i];
                }
                __syncwarp();
                const int to = column + 32 * part + lane;
                for (int i = 0; i < 16; ++i) {
                    const int line_of_c = row + first + warp % 4 * 16 + i;
                    if (line_of_c < m && to < n)
                        c[static_cast<size_t>(line_of_c) * n + to] = buffer[i * 33 + lane];
                }
                __syncwarp();
            }
            continue;
        }
#endif
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            if (GUARDED && c_row + 8 * i >= m) continue;
            float *to = c + static_cast<size_t>(c_row + 8 * i) * n + c_column;
#pragma unroll
            for (int j = 0; j < 16; ++j) {
                const float2 pair = make_float2(sums[4 * j + 2 * i], sums[4 * j + 2 * i + 1]);
                if (GUARDED && n % 2 != 0) {
                    if (c_column + 8 * j < n) to[8 * j] = pair.x;
                    if (c_column + 8 * j + 1 < n) to[8 * j + 1] = pair.y;
                } else if (!GUARDED || c_column + 8 * j < n) {
                    *reinterpret_cast<float2 *>(to + 8 * j) = pair;
                }
            }
        }
    }
#endif
}
