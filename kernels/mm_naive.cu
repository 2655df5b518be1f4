// One element of C a thread, inner product over global memory, for C[m][n] = A[m][k] * B[k][n] of
// any edges and of three types of elements. threadIdx.x runs along the column of C: the lanes of a
// warp read B and write C in consecutive words (source L, its naive kernel). The guarded build
// leaves out what lies outside.

extern "C" __global__ void mm_naive(const ELEMENT *a, const ELEMENT *b, ELEMENT *c, int m, int n,
                                    int k) {
    const int column = blockIdx.x * BLOCK + threadIdx.x;
    const int row = blockIdx.y * BLOCK + threadIdx.y;
#if GUARDED
    if (row >= m || column >= n) return;
#endif
    ELEMENT sum = 0;
    for (int i = 0; i < k; ++i) {
        sum += a[row * k + i] * b[i * n + column];
    }
    c[row * n + column] = sum;
}
