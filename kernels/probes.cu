// Probes of what a card can do at most: its rate of FP32 fused multiply-adds, and the latency and
// the rate of loads from each level of its memory. A latency is measured by one thread that follows
// a ring of pointers, so that no load can start before the one before it has come back; a rate by
// as many threads as the card holds, none of whose loads waits for another.

#define CHAINS 8  // fused multiply-adds of a thread that do not wait for one another
#define SHARED_POINTERS 256
#define READ_THREADS 256  // of a block
#define READ_LOADS 2      // of 16 bytes, of a thread in a tile
#define TILE_BYTES (READ_THREADS * READ_LOADS * 16)

// Each of CHAINS numbers runs through `steps` fused multiply-adds. Neither factor nor addend is
// known to the compiler, which therefore has to compute what is stored only if it is `never`.
extern "C" __global__ void fp32_fma(float factor, float addend, int steps, float never,
                                    float *sink) {
    float x[CHAINS];
#pragma unroll
    for (int i = 0; i < CHAINS; ++i) {
        x[i] = threadIdx.x + i;
    }
#pragma unroll 32
    for (int step = 0; step < steps; ++step) {
#pragma unroll
        for (int i = 0; i < CHAINS; ++i) {
            x[i] = fmaf(x[i], factor, addend);
        }
    }
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < CHAINS; ++i) {
        sum += x[i];
    }
    if (sum == never) *sink = sum;
}

// Makes a ring of pointers, `stride` pointers apart: slot i leads to slot successors[i].
extern "C" __global__ void lay_ring(unsigned long long *ring, const unsigned *successors, int slots,
                                    int stride) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= slots) return;
    ring[(size_t)i * stride] = (unsigned long long)(ring + (size_t)successors[i] * stride);
}

__device__ long long nanoseconds() {
    long long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

// Loads from global memory with a cache operator of PTX: "ca" caches in L1 and L2, "cg" in L2 only.
#define GLOBAL_LOADS(NAME, OPERATOR)                                                     \
    struct NAME {                                                                        \
        typedef unsigned long long Pointer;                                              \
        static __device__ Pointer follow(Pointer at) {                                   \
            Pointer next;                                                                \
            asm volatile("ld.global." OPERATOR ".u64 %0, [%1];" : "=l"(next) : "l"(at)); \
            return next;                                                                 \
        }                                                                                \
        static __device__ uint4 read(Pointer at) {                                       \
            uint4 word;                                                                  \
            asm volatile("ld.global." OPERATOR ".v4.u32 {%0, %1, %2, %3}, [%4];"         \
                         : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w)        \
                         : "l"(at));                                                     \
            return word;                                                                 \
        }                                                                                \
    };

GLOBAL_LOADS(ThroughL1, "ca")
GLOBAL_LOADS(PastL1, "cg")

// "memory": what was stored in shared memory before is read here.
struct Shared {
    typedef unsigned Pointer;
    static __device__ Pointer follow(Pointer at) {
        Pointer next;
        asm volatile("ld.shared.u32 %0, [%1];" : "=r"(next) : "r"(at) : "memory");
        return next;
    }
    // volatile in PTX too: else ptxas may load once what is read again and again
    static __device__ uint4 read(Pointer at) {
        uint4 word;
        asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w)
                     : "r"(at)
                     : "memory");
        return word;
    }
};

// Follows `warm_up` pointers, then times `steps` more. `reading` gets the cycles, the nanoseconds,
// and the pointer where the chase ended.
template <typename Load>
__device__ void chase(typename Load::Pointer at, int warm_up, int steps, long long *reading) {
    for (int step = 0; step < warm_up; ++step) {
        at = Load::follow(at);
    }
    const long long start_ns = nanoseconds();
    const long long start = clock64();
#pragma unroll 16
    for (int step = 0; step < steps; ++step) {
        at = Load::follow(at);
    }
    const long long end = clock64();
    const long long end_ns = nanoseconds();
    reading[0] = end - start;
    reading[1] = end_ns - start_ns;
    reading[2] = at;
}

extern "C" __global__ void chase_through_l1(unsigned long long start, int warm_up, int steps,
                                            long long *reading) {
    chase<ThroughL1>(start, warm_up, steps, reading);
}

extern "C" __global__ void chase_past_l1(unsigned long long start, int warm_up, int steps,
                                         long long *reading) {
    chase<PastL1>(start, warm_up, steps, reading);
}

// Shared memory is no cache: any ring will do, and here each pointer leads to the next one.
extern "C" __global__ void chase_shared(int warm_up, int steps, long long *reading) {
    __shared__ unsigned ring[SHARED_POINTERS];
    const unsigned first = __cvta_generic_to_shared(ring);
    for (int i = 0; i < SHARED_POINTERS; ++i) {
        ring[i] = first + (i + 1) % SHARED_POINTERS * sizeof(unsigned);
    }
    chase<Shared>(first, warm_up, steps, reading);
}

// Every block reads `steps` tiles of the buffer of `bytes` (whole tiles) at `first`: to begin with
// the one of its own number, then each time the one as many further on as there are blocks, behind
// the last from the first again. Neighbouring threads read neighbouring words of 16 bytes. The XOR
// of all words is stored only if it is `never`; not knowing that, the compiler keeps every load.
template <typename Load>
__device__ void read_tiles(typename Load::Pointer first, unsigned bytes, int steps, unsigned never,
                           unsigned *sink) {
    const unsigned hop = gridDim.x * TILE_BYTES % bytes;
    unsigned tile = blockIdx.x * TILE_BYTES % bytes;
    first += threadIdx.x * sizeof(uint4);
    uint4 sum = make_uint4(0, 0, 0, 0);
#pragma unroll 2
    for (int step = 0; step < steps; ++step) {
#pragma unroll
        for (int load = 0; load < READ_LOADS; ++load) {
            const uint4 word = Load::read(first + tile + load * READ_THREADS * sizeof(uint4));
            sum.x ^= word.x;
            sum.y ^= word.y;
            sum.z ^= word.z;
            sum.w ^= word.w;
        }
        tile += hop;
        if (tile >= bytes) tile -= bytes;
    }
    const unsigned all = sum.x ^ sum.y ^ sum.z ^ sum.w;
    if (all == never) *sink = all;
}

extern "C" __global__ void read_through_l1(unsigned long long first, unsigned bytes, int steps,
                                           unsigned never, unsigned *sink) {
    read_tiles<ThroughL1>(first, bytes, steps, never, sink);
}

extern "C" __global__ void read_past_l1(unsigned long long first, unsigned bytes, int steps,
                                        unsigned never, unsigned *sink) {
    read_tiles<PastL1>(first, bytes, steps, never, sink);
}

// Shared memory belongs to a block: each reads a tile of its own, of zeros.
extern "C" __global__ void read_shared(int steps, unsigned never, unsigned *sink) {
    __shared__ uint4 tile[TILE_BYTES / sizeof(uint4)];
#pragma unroll
    for (int load = 0; load < READ_LOADS; ++load) {
        tile[load * READ_THREADS + threadIdx.x] = make_uint4(0, 0, 0, 0);
    }
    __syncthreads();
    read_tiles<Shared>(__cvta_generic_to_shared(tile), TILE_BYTES, steps, never, sink);
}
