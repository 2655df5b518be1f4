// loop_order with cache blocking. There all of B passes through the cache once per row of C. Here
// block x block pieces of A and B are multiplied while they are in cache, so each piece is loaded
// once per block of rows instead of once per row. The innermost loop still runs along a row of B
// and of C, in consecutive words, so it can be vectorised (source V, reference [2]: the speed
// depends strongly on the block size).

static inline int smaller(int p, int q) {
    return p < q ? p : q;
}

int blocked(const float *restrict a, const float *restrict b, float *restrict c, int n, int block,
            int threads) {
    (void)threads;
    for (long i = 0; i < (long)n * n; ++i) {
        c[i] = 0.0f;
    }
    for (int i0 = 0; i0 < n; i0 += block) {
        for (int k0 = 0; k0 < n; k0 += block) {
            for (int j0 = 0; j0 < n; j0 += block) {
                const int i1 = smaller(i0 + block, n);
                const int k1 = smaller(k0 + block, n);
                const int j1 = smaller(j0 + block, n);
                for (int i = i0; i < i1; ++i) {
                    for (int k = k0; k < k1; ++k) {
                        const float a_element = a[(long)i * n + k];
                        for (int j = j0; j < j1; ++j) {
                            c[(long)i * n + j] += a_element * b[(long)k * n + j];
                        }
                    }
                }
            }
        }
    }
    return 0;
}
