#include "cpu_reference/packed.c"
#include <math.h>
typedef int variant(const float *, const float *, float *, int, int, int);
variant naive, loop_order, column_buffered, blocked;

static int check(const char *name, variant *run, int n, int block, int threads) {
    const size_t elements = (size_t)n * n;
    float *const a = malloc(elements * sizeof *a), *const b = malloc(elements * sizeof *b);
    float *const c = malloc(elements * sizeof *c);
    for (size_t x = 0; x < elements; ++x) {
        a[x] = (float)((x * 37 + 11) % 101) / 50 - 1;
        b[x] = (float)((x * 53 + 29) % 103) / 51 - 1;
        c[x] = NAN;
    }
    int wrong = run(a, b, c, n, block, threads) != 0;
    for (int i = 0; i < n; i += 1 + n / 40) {
        for (int j = 0; j < n; j += 1 + n / 40) {
            double sum = 0;
            for (int k = n; k-- > 0;) {
                sum += (double)a[(size_t)i * n + k] * b[(size_t)k * n + j];
            }
            wrong |= !(fabs(c[(size_t)i * n + j] - sum) <= 1e-5 * n);
        }
    }
    free(a), free(b), free(c);
    if (wrong) printf("%s n=%d block=%d threads=%d: wrong\n", name, n, block, threads);
    return wrong;
}

int main(void) {
    const int sizes[] = {1, 2, 3, 7, 12, 13, 17, 31, 32, 33, 64, 97, 100, 255, 256};
    const int blocks[] = {1, 3, 8, 64, 512};
    int wrong = 0;
    for (int s = 0; s < (int)(sizeof sizes / sizeof *sizes); ++s) {
        const int n = sizes[s];
        wrong |= check("naive", naive, n, 0, 1);
        wrong |= check("loop_order", loop_order, n, 0, 1);
        wrong |= check("column_buffered", column_buffered, n, 0, 1);
        for (int x = 0; x < 5; ++x) {
            wrong |= check("blocked", blocked, n, blocks[x], 1);
        }
        for (int threads = 1; threads <= 5; ++threads) {
            wrong |= check("packed", packed, n, 0, threads);
        }
    }
    wrong |= check("packed", packed, 1000, 0, 1) | check("packed", packed, 1023, 0, 2);
    host_caches = (struct caches){8 << 10, 64 << 10};
    for (int n = 1; n <= 400; n += 1 + n / 7) {
        wrong |= check("packed", packed, n, 0, 1) | check("packed", packed, n, 0, 3);
    }
    puts("done");
    return wrong;
}
