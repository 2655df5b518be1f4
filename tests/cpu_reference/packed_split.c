// Prints how products are shared: for each size the threads of the grid, and whether the rectangles
// cover every element of C once.
#include "cpu_reference/packed.c"
static int covered(struct product *product, char *counts) {
    const long n = product->n;
    memset(counts, 0, n * n);
    for (int number = 0; number < product->threads; ++number) {
        struct rectangle part;
        for (bool more = next_rectangle(product, number, true, &part); more;
             more = next_rectangle(product, number, false, &part)) {
            for (long i = part.i0; i < part.i1; ++i) {
                for (long j = part.j0; j < part.j1; ++j) {
                    ++counts[i * n + j];
                }
            }
        }
    }
    for (long x = 0; x < n * n; ++x) {
        if (counts[x] != 1) return 0;
    }
    return 1;
}

int main(int count, char **words) {
    static char counts[4096 * 4096];
    read_host_caches();
    for (int i = 1; i < count; ++i) {
        for (int threads = 1; threads <= 32; threads *= 2) {
            struct product product = {.n = atol(words[i]), .blocks = most_blocks(host_caches)};
            share_out(&product, threads);
            printf("%s %d %d %d\n", words[i], threads, product.threads, covered(&product, counts));
        }
    }
}
