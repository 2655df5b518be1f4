// The triple loop with its inner two exchanged: row, inner dimension, column. The innermost runs
// along a row of B and of C, in consecutive words, where `naive` strides through B; but all of B
// passes through the cache for each row of C.

int loop_order(const float *restrict a, const float *restrict b, float *restrict c, int n,
               int block, int threads) {
    (void)block, (void)threads;
    for (int i = 0; i < n; ++i) {
        for (int j = 0; j < n; ++j) {
            c[(long)i * n + j] = 0.0f;
        }
        for (int k = 0; k < n; ++k) {
            const float a_element = a[(long)i * n + k];
            for (int j = 0; j < n; ++j) {
                c[(long)i * n + j] += a_element * b[(long)k * n + j];
            }
        }
    }
    return 0;
}
