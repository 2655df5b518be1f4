// Column j of B is copied to a contiguous buffer once and then serves n inner products. This is
// faster than naive because the n strided reads of the column, one cache line per word, become
// consecutive ones, for both operands (source V, reference [2]). B is still copied column by
// column, so the copy itself remains strided. Returns 1 if memory runs out.

#include <stdlib.h>

int column_buffered(const float *a, const float *b, float *c, int n, int block, int threads) {
    (void)block, (void)threads;
    float *column = malloc((size_t)n * sizeof *column);
    if (!column) return 1;
    for (int j = 0; j < n; ++j) {
        for (int k = 0; k < n; ++k) {
            column[k] = b[(long)k * n + j];
        }
        for (int i = 0; i < n; ++i) {
            float sum = 0.0f;
            for (int k = 0; k < n; ++k) {
                sum += a[(long)i * n + k] * column[k];
            }
            c[(long)i * n + j] = sum;
        }
    }
    free(column);
    return 0;
}
