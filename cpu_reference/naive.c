// The triple loop in its plainest order: row, column, inner product. The innermost loop reads B
// with stride n, so at large n almost every FMA waits for a cache line of which it uses a single
// word (source V, reference [2]).

int naive(const float *a, const float *b, float *c, int n, int block, int threads) {
    (void)block, (void)threads;
    for (int i = 0; i < n; ++i) {
        for (int j = 0; j < n; ++j) {
            float sum = 0.0f;
            for (int k = 0; k < n; ++k) {
                sum += a[(long)i * n + k] * b[(long)k * n + j];
            }
            c[(long)i * n + j] = sum;
        }
    }
    return 0;
}
