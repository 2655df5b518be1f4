// naive with the two inner loops exchanged: row, inner dimension, column. The innermost loop now
// runs along a row of B and of C, so it uses every word of a cache line and the compiler can
// vectorise it. All of B still passes through the cache once for each row of C, which is what
// blocking mends.

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
