// One element of C per thread, for C[m][n] = A[m][k] * B[k][n] of any shape and three element
// types. threadIdx.x runs along the columns of C, so the lanes of a warp read consecutive words of
// B and write consecutive words of C (source L, its naive kernel). Each element of A and B is still
// fetched from global memory by every thread that needs it, which mm_tile avoids. The guarded build
// returns where a thread is outside of C.

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
