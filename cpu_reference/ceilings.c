// What one core can do at most: fused multiply-adds in vector registers, and words to and from
// memory. Both return a rate a second, of one run that the caller repeats.

#define _POSIX_C_SOURCE 199309L  // clock_gettime

#include <time.h>

#if defined(__AVX512F__)
enum { VECTOR_BYTES = 64 };
#elif defined(__AVX__)
enum { VECTOR_BYTES = 32 };
#else
enum { VECTOR_BYTES = 16 };
#endif
// Of today's cores none can have more than ten multiply-adds under way; each chain is one of them.
enum { LANES = VECTOR_BYTES / sizeof(float), CHAINS = 12 };

typedef float vector __attribute__((vector_size(VECTOR_BYTES)));

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

// Multiplications and additions a second. `rounds` of a multiply-add in each chain, which
// approaches 1 and so stays an ordinary number.
double fma_rate(long rounds) {
    const volatile float half = 0.5f;  // is not known to the compiler
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

// Bytes a second of STREAM's triad (McCalpin, IEEE TCCA Newsletter, December 1995): two arrays of
// so many elements are read and a third is written. As there, the reading of lines before they are
// written is not counted.
double triad_rate(float *restrict sum, const float *restrict p, const float *restrict q,
                  long elements) {
    const double begin = now();
    for (long x = 0; x < elements; ++x) {
        sum[x] = p[x] + 3.0f * q[x];
    }
    return 3.0 * sizeof(float) * elements / (now() - begin);
}
