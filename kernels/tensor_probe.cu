// Measures the throughput of tensor cores: products of 16-bit floats, summed in float32. In each
// step, every group of four warps multiplies 64 x 64 by 64 x 128 numbers from shared memory by
// wgmma if the target is sm_90a. On other GPUs from sm_80 on, its warps do the same work by
// mma.sync from registers. The operands have random signs and mantissas, because tensor cores draw
// less power with zeros, and the GPU might then run at a clock that no real product reaches.

#define THREADS 256  // threads per block
#define SUMS 64      // sums per thread
#define A_WORDS (64 * 32)
#define B_WORDS (128 * 32)

static __device__ __forceinline__ unsigned random_word(unsigned number) {
    number = (number ^ number >> 16) * 0x7feb352du;
    number = (number ^ number >> 15) * 0x846ca68bu;
    return ((number ^ number >> 16) & 0x83ff83ffu) | 0x38003800u;  // 16-bit, 0.5 <= |x| < 1
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Matrix descriptor of wgmma: lines of 128 bytes with the 128-byte swizzle, and groups of eight
// lines 1024 bytes apart.
static __device__ __forceinline__ unsigned long long described(const unsigned *matrix) {
    const unsigned long long address = __cvta_generic_to_shared(matrix);
    return (address & 0x3ffff) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

#define FOUR(i) "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3])
static __device__ __forceinline__ void wgmma(float (&sums)[SUMS], unsigned long long a,
                                             unsigned long long b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, 1, 1, 1, 0, 0;\n"
        : FOUR(0), FOUR(4), FOUR(8), FOUR(12), FOUR(16), FOUR(20), FOUR(24), FOUR(28), FOUR(32),
          FOUR(36), FOUR(40), FOUR(44), FOUR(48), FOUR(52), FOUR(56), FOUR(60)
        : "l"(a), "l"(b));
}

static __device__ __forceinline__ void multiply(float (&sums)[SUMS], const unsigned *words,
                                                int steps) {
    const unsigned long long a = described(words), b = described(words + A_WORDS);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    for (int step = 0; step < steps; ++step) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            wgmma(sums, a + 2 * k, b + 2 * k);
        }
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

#elif __CUDA_ARCH__ >= 800

static __device__ __forceinline__ void multiply(float (&sums)[SUMS], const unsigned *words,
                                                int steps) {
    const int lane = threadIdx.x % 32;
    unsigned a[4], b[2];
    for (int i = 0; i < 4; ++i) {
        a[i] = words[lane + 32 * i];
    }
    for (int i = 0; i < 2; ++i) {
        b[i] = words[lane + 128 + 32 * i];
    }
    for (int step = 0; step < 4 * steps; ++step) {
#pragma unroll
        for (int i = 0; i < SUMS; i += 4) {  // independent sums, so that latencies overlap
            asm volatile(
                "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                : "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3])
                : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
        }
    }
}

#else

static __device__ __forceinline__ void multiply(float (&)[SUMS], const unsigned *, int) {
}

#endif

// The sums are stored only if one is `never`. The compiler cannot exclude that, so it keeps the
// products.
extern "C" __global__ void __launch_bounds__(THREADS)
    fp16_products(int steps, float never, float *sink) {
    __shared__ __align__(1024) unsigned words[A_WORDS + B_WORDS];
    for (int i = threadIdx.x; i < A_WORDS + B_WORDS; i += THREADS) {
        words[i] = random_word(i);
    }
    __syncthreads();
    float sums[SUMS] = {};
    multiply(sums, words, steps);
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < SUMS; ++i) {
        sum += sums[i];
    }
    if (sum == never) *sink = sum;
}
