// Splits A and B into 16-bit parts for `sgemm_tensor_tma`, once per product instead of once per
// block: x * scale = high + low / LOW, with 22 to 24 bits together. The scale is a power of two,
// one for TILES tiles of a line (a row of A or a column of B). It puts the largest element of these
// between 2^14 and 2^15, close to the largest 16-bit float (2^16), so that small elements keep as
// many bits as possible.
//
// The result is a sequence of images, each of 128 lines and 64 steps along k. An image has the
// layout that wgmma reads in shared memory, so the product fetches it by one bulk copy: first the
// high parts, 128 bytes per line, then the low parts, then the inverse scales of the lines. Images
// of the same lines are neighbours, and zeros fill the outside. All images of B precede those of A.
// A launch with fewer blocks splits A only; with m = 0 it splits B only.
//
// A block of 256 threads splits 32 lines and TILES tiles.

#define LINES 128                // lines per image
#define STEP 64                  // depth of an image along k
#define PART (LINES * STEP * 2)  // bytes per part of an image
#define IMAGE (2 * PART + 4 * LINES)
#define TILES 4                        // tiles along k that share a scale
#define GROUP 32                       // lines that a block splits
#define LOW 2048.0f                    // factor of low parts, 2^11
#define PITCH (TILES * STEP * 2 + 16)  // bytes per column of B: the next one is four banks further

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

#else

static unsigned pack(float first, float second) {
    return host_to_half(second) << 16 | host_to_half(first);
}

static void unpack(unsigned word, float &first, float &second) {
    first = host_from_half(word & 0xffff);
    second = host_from_half(word >> 16);
}

#endif

// Splits two neighbours along k into a word of high and a word of low parts.
static __device__ __forceinline__ void split(float first, float second, float scale, unsigned &high,
                                             unsigned &low) {
    float first_high, second_high;
    high = pack(first * scale, second * scale);
    unpack(high, first_high, second_high);
    low = pack((first * scale - first_high) * LOW, (second * scale - second_high) * LOW);
}

// Biased exponent of the largest element of a line, at least 15: the scale of a smaller one would
// be infinite.
static __device__ __forceinline__ int exponent(float largest) {
    return max(__float_as_int(largest) >> 23, 15);
}

// The scale that brings an element of this exponent to 2^14, and its inverse.
static __device__ __forceinline__ float scale_of(int exponent) {
    return __int_as_float((2 * 127 + 14 - exponent) << 23);
}

static __device__ __forceinline__ float inverse_of(int exponent) {
    return __int_as_float((exponent - 14) << 23);
}

extern "C" __global__ void __launch_bounds__(256, 4)
    split_parts(const ELEMENT *a, const ELEMENT *b, ELEMENT *c, int m, int n, int k) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800           // older GPUs do not convert pairs
    __shared__ __align__(16) char columns[2][GROUP * PITCH];  // high and low parts of B, transposed
    __shared__ __align__(16) float maxima[GROUP][36];
    const unsigned thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
    const int steps = (k + STEP - 1) / STEP, chunks = (steps + TILES - 1) / TILES;
    const int of_n = (n + LINES - 1) / LINES;
    const unsigned of_a = (m + LINES - 1) / LINES * (LINES / GROUP) * chunks;  // for A
    char *images = reinterpret_cast<char *>(c);
    if (blockIdx.x < of_a) {
        images += static_cast<size_t>(of_n) * steps * IMAGE;
        const int first = blockIdx.x / chunks * GROUP, tile = blockIdx.x % chunks * TILES;
        // A warp splits four rows, and a thread two neighbours along k in each tile.
        float2 elements[4][TILES];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int row = first + 4 * warp + i;
            const float *from = a + static_cast<size_t>(row) * k;
            float largest = 0.0f;
#pragma unroll
            for (int j = 0; j < TILES; ++j) {
                const int at = (tile + j) * STEP + 2 * lane;
                float2 &pair = elements[i][j];
                pair = make_float2(0.0f, 0.0f);
                if (GUARDED && k % 2 != 0) {
                    if (row < m && at < k) pair.x = from[at];
                    if (row < m && at + 1 < k) pair.y = from[at + 1];
                } else if (row < m && at < k) {
                    pair = *reinterpret_cast<const float2 *>(from + at);
                }
                largest = fmaxf(largest, fmaxf(fabsf(pair.x), fabsf(pair.y)));
            }
            maxima[4 * warp + i][lane] = largest;
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int row = first + 4 * warp + i, line = row % LINES;
            float largest = 0.0f;
#pragma unroll
            for (int j = 0; j < 32; j += 4) {
                const float4 four = *reinterpret_cast<float4 *>(&maxima[4 * warp + i][j]);
                largest = fmaxf(fmaxf(largest, fmaxf(four.x, four.y)), fmaxf(four.z, four.w));
            }
            const int found = exponent(largest);
            char *to = images + (static_cast<size_t>(row / LINES) * steps + tile) * IMAGE;
#pragma unroll
            for (int j = 0; j < TILES; ++j) {
                if (tile + j < steps) {
                    unsigned high, low;
                    split(elements[i][j].x, elements[i][j].y, scale_of(found), high, low);
                    // The 128-byte swizzle that wgmma expects: chunks of 16 bytes are exchanged by
                    // XOR.
                    const int at = line * 128 + (lane / 4 ^ line % 8) * 16 + lane % 4 * 4;
                    *reinterpret_cast<unsigned *>(to + j * IMAGE + at) = high;
                    *reinterpret_cast<unsigned *>(to + j * IMAGE + PART + at) = low;
                    if (lane == 0) {
                        float *scales = reinterpret_cast<float *>(to + j * IMAGE + 2 * PART);
                        scales[line] = inverse_of(found);
                    }
                }
            }
        }
    } else {
        const int groups = of_n * (LINES / GROUP), block = blockIdx.x - of_a;
        const int first = block % groups * GROUP, tile = block / groups * TILES;
        // A warp splits 32 steps along k, and a thread one column. B is read along its rows, so the
        // loads are coalesced, but a column of B is a line of the image: the parts are transposed
        // through shared memory.
        const int column = first + lane, row = tile * STEP + 32 * warp;
        const float *from = b + static_cast<size_t>(row) * n + column;
        float elements[32], largest = 0.0f;
#pragma unroll
        for (int i = 0; i < 32; ++i) {
            elements[i] = column < n && row + i < k ? from[static_cast<size_t>(i) * n] : 0.0f;
        }
#pragma unroll
        for (int i = 0; i < 32; ++i) {
            largest = fmaxf(largest, fabsf(elements[i]));
        }
        maxima[warp][lane] = largest;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            largest = fmaxf(largest, maxima[i][lane]);
        }
        const int found = exponent(largest);
#pragma unroll
        for (int i = 0; i < 32; i += 8) {
            unsigned high[4], low[4];
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const float *pair = elements + i + 2 * j;
                split(pair[0], pair[1], scale_of(found), high[j], low[j]);
            }
            const int at = lane * PITCH + 64 * warp + 2 * i;
            *reinterpret_cast<uint4 *>(columns[0] + at) =
                make_uint4(high[0], high[1], high[2], high[3]);
            *reinterpret_cast<uint4 *>(columns[1] + at) =
                make_uint4(low[0], low[1], low[2], low[3]);
        }
        __syncthreads();
        char *to = images + (static_cast<size_t>(first / LINES) * steps + tile) * IMAGE;
        if (warp < TILES && tile + static_cast<int>(warp) < steps) {
            float *scales = reinterpret_cast<float *>(to + warp * IMAGE + 2 * PART);
            scales[column % LINES] = inverse_of(found);
        }
        // Eight threads store the 128 bytes of a line.
        const int own = 4 * warp + lane / 8, line = first % LINES + own, chunk = lane % 8;
#pragma unroll
        for (int j = 0; j < TILES; ++j) {
            if (tile + j < steps) {
                const int at = j * IMAGE + line * 128 + (chunk ^ line % 8) * 16;
                const int turned = own * PITCH + 128 * j + 16 * chunk;
                *reinterpret_cast<uint4 *>(to + at) =
                    *reinterpret_cast<uint4 *>(columns[0] + turned);
                *reinterpret_cast<uint4 *>(to + PART + at) =
                    *reinterpret_cast<uint4 *>(columns[1] + turned);
            }
        }
    }
#endif
}
