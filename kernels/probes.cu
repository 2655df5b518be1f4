// Probes of what a card can do at most: its rate of FP32 fused multiply-adds, and the latency of a
// load from each level of its memory. A latency is measured by one thread that follows a ring of
// pointers, so that no load can start before the one before it has come back.

#define CHAINS 8  // fused multiply-adds of a thread that do not wait for one another
#define SHARED_POINTERS 256

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

struct ThroughL1 {
    typedef unsigned long long Pointer;
    static __device__ Pointer follow(Pointer at) {
        Pointer next;
        asm volatile("ld.global.ca.u64 %0, [%1];" : "=l"(next) : "l"(at));
        return next;
    }
};

struct PastL1 {
    typedef unsigned long long Pointer;
    static __device__ Pointer follow(Pointer at) {
        Pointer next;
        asm volatile("ld.global.cg.u64 %0, [%1];" : "=l"(next) : "l"(at));
        return next;
    }
};

struct Shared {
    typedef unsigned Pointer;
    static __device__ Pointer follow(Pointer at) {
        Pointer next;
        // "memory": what was stored in shared memory before is read here
        asm volatile("ld.shared.u32 %0, [%1];" : "=r"(next) : "r"(at) : "memory");
        return next;
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
