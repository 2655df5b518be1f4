// A product of at most 128 x 128 in one launch without copies. At this size an end-to-end run is
// all latency: three copies and a launch of some microseconds each, for a product that takes no
// longer. Here A, B and C stay in host memory that the GPU maps (zero-copy), and the kernel reads
// and writes them over the link. Loads are issued before the first is used, so the latency of the
// link counts once and not per element.
//
// Eight blocks have some rows of A and C each. Their number is a multiple of four, so that their
// elements are contiguous groups of 16 bytes for any n. From compute capability 9.0 on, the blocks
// are a cluster: each loads an eighth of B and stores it to the shared memory of all eight, so
// every element crosses the link once. Elsewhere each block loads all of B. A thread computes two
// rows and four columns, which are a quarter of the columns apart, so that each word from shared
// memory serves two or four FMAs.

#define BLOCKS 8
#define THREADS 256
#define MOST 4  // vectors of four elements that a thread loads at a time

#if __CUDA_ARCH__ >= 900

#define CLUSTER __cluster_dims__(BLOCKS, 1, 1)

// Waits for all blocks of the cluster. Their stores to this block's shared memory are visible then.
static __device__ __forceinline__ void meet() {
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

// Stores to the same address in the shared memory of every block of the cluster.
static __device__ __forceinline__ void share(float *to, float4 four) {
    const unsigned own = static_cast<unsigned>(__cvta_generic_to_shared(to));
#pragma unroll
    for (int i = 0; i < BLOCKS; ++i) {
        asm volatile(
            "{ .reg .b32 other; mapa.shared::cluster.u32 other, %0, %1;\n"
            "st.shared::cluster.v4.f32 [other], {%2, %3, %4, %5}; }\n" ::"r"(own),
            "r"(i), "f"(four.x), "f"(four.y), "f"(four.z), "f"(four.w)
            : "memory");
    }
}

#else

#define CLUSTER

static __device__ __forceinline__ void meet() {
    __syncthreads();
}

static __device__ __forceinline__ void share(float *to, float4 four) {
    *reinterpret_cast<float4 *>(to) = four;
}

#endif

// Loads four of `count` elements, beginning with number `at`; zeros follow the last one.
static __device__ __forceinline__ float4 load_four(const float *from, int at, int count) {
    if (at + 4 <= count) return *reinterpret_cast<const float4 *>(from + at);
    return make_float4(at < count ? from[at] : 0.0f, at + 1 < count ? from[at + 1] : 0.0f,
                       at + 2 < count ? from[at + 2] : 0.0f, 0.0f);
}

extern "C" __global__ void __launch_bounds__(256, 1) CLUSTER
    sgemm_mapped(const float *a, const float *b, float *c, int n) {
    extern __shared__ __align__(16) float smem[];
    const int rows = (n + 4 * BLOCKS - 1) / (4 * BLOCKS) * 4;  // rows of A and C per block
    const int first = blockIdx.x * rows, own = max(0, min(rows, n - first));
    const int begin = first * n, count = own * n;
    float *of_b = smem, *of_a = smem + (n * n + 3) / 4 * 4, *of_c = of_a + rows * n;
#if __CUDA_ARCH__ >= 900
    const int b_begin = begin, b_count = count;
#else
    const int b_begin = 0, b_count = n * n;
#endif
    float4 loaded[MOST];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int at = 4 * (threadIdx.x + i * THREADS);
        if (at < count) loaded[i] = load_four(a + begin, at, count);
    }
    float4 shared[MOST];
#pragma unroll
    for (int i = 0; i < MOST; ++i) {
        const int at = 4 * (threadIdx.x + i * THREADS);
        if (at < b_count) shared[i] = load_four(b + b_begin, at, b_count);
    }
    meet();  // all blocks have begun: before that, their shared memory must not be written
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int at = 4 * (threadIdx.x + i * THREADS);
        if (at < count) *reinterpret_cast<float4 *>(of_a + at) = loaded[i];
    }
    for (int from = 0; from < b_count; from += 4 * MOST * THREADS) {
#pragma unroll
        for (int i = 0; i < MOST; ++i) {
            const int at = from + 4 * (threadIdx.x + i * THREADS);
            if (at < b_count) share(of_b + b_begin + at, shared[i]);
        }
#pragma unroll
        for (int i = 0; i < MOST; ++i) {
            const int at = from + 4 * (threadIdx.x + (MOST + i) * THREADS);
            if (at < b_count) shared[i] = load_four(b + b_begin, at, b_count);
        }
    }
    meet();  // A and B are complete
    const int quarter = (n + 3) / 4;
    for (int i = threadIdx.x; i < (own + 1) / 2 * quarter; i += THREADS) {
        const int row = i / quarter * 2, column = i % quarter;
        const int second = row + 1 < own ? row + 1 : row;  // the last row may be without a partner
        int at[4];
        float sums[2][4] = {};
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            at[j] = min(column + j * quarter, n - 1);
        }
#pragma unroll 4
        for (int k = 0; k < n; ++k) {
            const float above = of_a[row * n + k], below = of_a[second * n + k];
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const float element = of_b[k * n + at[j]];
                sums[0][j] = fmaf(above, element, sums[0][j]);
                sums[1][j] = fmaf(below, element, sums[1][j]);
            }
        }
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            if (column + j * quarter < n) {
                of_c[row * n + at[j]] = sums[0][j];
                if (second > row) of_c[second * n + at[j]] = sums[1][j];
            }
        }
    }
    __syncthreads();
    for (int at = 4 * threadIdx.x; at < count; at += 4 * THREADS) {
        if (at + 4 <= count) {
            *reinterpret_cast<float4 *>(c + begin + at) = *reinterpret_cast<float4 *>(of_c + at);
        } else {
            for (int i = at; i < count; ++i) {
                c[begin + i] = of_c[i];
            }
        }
    }
}
