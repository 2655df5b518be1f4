// Probes of a GPU's ceilings: its FP32 FMA throughput, and the latency and throughput of loads from
// each memory level. To measure a latency, one thread follows a ring of pointers, so that no load
// can start before the previous one has returned. To measure a throughput, as many threads as the
// GPU holds issue loads that do not depend on one another.

#define CHAINS 8  // independent FMAs per thread, to hide their latency
#define SHARED_POINTERS 256
#define READ_THREADS 256  // threads per block
#define READ_LOADS 2      // loads of 16 bytes per thread and tile
#define TILE_BYTES (READ_THREADS * READ_LOADS * 16)

// Each of CHAINS numbers runs through `steps` FMAs. The compiler can neither fold them, because
// factor and addend are arguments, nor drop them, because the sum might equal `never` and be
// stored.
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

// Lays a ring of pointers, `stride` pointers apart: slot i leads to slot successors[i]. A random
// order keeps prefetchers from guessing the next address.
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

// Loads from global memory with a PTX cache operator: "ca" caches in L1 and L2, "cg" in L2 only.
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

// The clobber "memory" keeps earlier stores to shared memory above these loads.
struct Shared {
    typedef unsigned Pointer;
    static __device__ Pointer follow(Pointer at) {
        Pointer next;
        asm volatile("ld.shared.u32 %0, [%1];" : "=r"(next) : "r"(at) : "memory");
        return next;
    }
    // Also volatile in PTX: otherwise ptxas may load a word once that is read repeatedly.
    static __device__ uint4 read(Pointer at) {
        uint4 word;
        asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w)
                     : "r"(at)
                     : "memory");
        return word;
    }
};

// Follows `warm_up` pointers to fill the caches, then times `steps` more. `reading` gets the
// cycles, the nanoseconds and the last pointer, without which the compiler could drop the loop.
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

// Shared memory is not cached, so the order does not matter: each pointer leads to the next word.
extern "C" __global__ void chase_shared(int warm_up, int steps, long long *reading) {
    __shared__ unsigned ring[SHARED_POINTERS];
    const unsigned first = __cvta_generic_to_shared(ring);
    for (int i = 0; i < SHARED_POINTERS; ++i) {
        ring[i] = first + (i + 1) % SHARED_POINTERS * sizeof(unsigned);
    }
    chase<Shared>(first, warm_up, steps, reading);
}

// Every block reads `steps` tiles of a buffer of `bytes` (whole tiles) at `first`. It begins with
// the tile of its own number and advances by the number of blocks, back to the start behind the
// last tile, so that the blocks together sweep the buffer. Neighbouring threads read neighbouring
// words of 16 bytes: the loads are coalesced. The XOR of all words might equal `never` and be
// stored, so the compiler keeps every load.
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

// Shared memory belongs to a block, so each block reads a tile of its own, of zeros.
extern "C" __global__ void read_shared(int steps, unsigned never, unsigned *sink) {
    __shared__ uint4 tile[TILE_BYTES / sizeof(uint4)];
#pragma unroll
    for (int load = 0; load < READ_LOADS; ++load) {
        tile[load * READ_THREADS + threadIdx.x] = make_uint4(0, 0, 0, 0);
    }
    __syncthreads();
    read_tiles<Shared>(__cvta_generic_to_shared(tile), TILE_BYTES, steps, never, sink);
}
