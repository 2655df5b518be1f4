// Ceilings of the CPU: FMAs in vector registers, bytes to and from memory, and the clock of one
// core. Each function returns a rate per second of one run, which the caller repeats. With one
// thread there is no parallel region, so OpenMP costs nothing.

#define _POSIX_C_SOURCE 199309L  // clock_gettime

#include <time.h>

#if defined(__AVX512F__)
enum { VECTOR_BYTES = 64 };
#elif defined(__AVX__)
enum { VECTOR_BYTES = 32 };
#else
enum { VECTOR_BYTES = 16 };
#endif
// An FMA takes 4 or 5 cycles and a core starts two per cycle, so at most ten are in flight. Each
// chain is one of them; twelve independent chains keep the units busy.
enum { LANES = VECTOR_BYTES / sizeof(float), CHAINS = 12, LINKS = 64 };

typedef float vector __attribute__((vector_size(VECTOR_BYTES)));

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static double fma_rate_of_one(long rounds) {
    const volatile float half = 0.5f;  // volatile, so that the compiler cannot fold the loop
    const float factor = half, term = half;
    vector chains[CHAINS];
    for (int x = 0; x < CHAINS; ++x) {
        chains[x] = (vector){0} + half;
    }
    const double begin = now();
    for (long round = 0; round < rounds; ++round) {
#pragma GCC unroll CHAINS
        for (int x = 0; x < CHAINS; ++x) {
            chains[x] = chains[x] * factor + term;
        }
    }
    volatile vector result = chains[0];
    for (int x = 1; x < CHAINS; ++x) {
        result += chains[x];
    }
    return 2.0 * LANES * CHAINS * rounds / (now() - begin);
}

// FLOP per second of `threads` threads together, with `rounds` FMAs per chain. x = x / 2 + 1 / 2
// approaches 1, so no chain overflows or becomes denormal, which would be slower on some cores.
double fma_rate(long rounds, int threads) {
    double rate = 0.0;
#pragma omp parallel num_threads(threads) if (threads > 1) reduction(+ : rate)
    {
#pragma omp barrier
        rate += fma_rate_of_one(rounds);
    }
    return rate;
}

// Writes an array with the threads that will read it. Linux places a page near the thread that
// touches it first, so each thread later reads its own NUMA node.
void touch(float *array, long elements, int threads) {
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int part = 0; part < threads; ++part) {
        for (long x = elements * part / threads; x < elements * (part + 1) / threads; ++x) {
            array[x] = 1.0f;
        }
    }
}

static void triad(float *restrict sum, const float *restrict p, const float *restrict q, long begin,
                  long end) {
    for (long x = begin; x < end; ++x) {
        sum[x] = p[x] + 3.0f * q[x];
    }
    __asm__ volatile("" ::: "memory");  // no instruction, but the compiler cannot drop a repeat
}

// Bytes per second of STREAM's triad (McCalpin, IEEE TCCA Newsletter, December 1995), which reads
// two arrays of `elements` and writes a third, `repeats` times. As in STREAM, the reads of cache
// lines that are about to be written (write-allocate) are not counted.
double triad_rate(float *sum, const float *p, const float *q, long elements, long repeats,
                  int threads) {
    const double begin = now();
    for (long repeat = 0; repeat < repeats; ++repeat) {
        if (threads > 1) {
#pragma omp parallel for num_threads(threads) schedule(static)
            for (int part = 0; part < threads; ++part) {
                triad(sum, p, q, elements * part / threads, elements * (part + 1) / threads);
            }
        } else {
            triad(sum, p, q, 0, elements);
        }
    }
    return 3.0 * sizeof(float) * elements * repeats / (now() - begin);
}

// Cycles per second of this core. Each exclusive or waits for the previous one and takes one cycle
// on every current core, so their rate is the clock.
double clock_rate(long rounds) {
    const volatile unsigned long told = 0x9E3779B97F4A7C15;
    const unsigned long pattern = told;
    unsigned long word = told;
    const double begin = now();
    for (long round = 0; round < rounds; ++round) {
#pragma GCC unroll LINKS
        for (int x = 0; x < LINKS; ++x) {
            word ^= pattern;
            __asm__ volatile("" : "+r"(word));  // no instruction, but two cannot cancel out
        }
    }
    const double elapsed = now() - begin;
    volatile unsigned long result = word;
    (void)result;
    return (double)rounds * LINKS / elapsed;
}
