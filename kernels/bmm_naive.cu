// The mm_naive kernel for a batch of products: blockIdx.z is the number of the product. One element
// of C a thread, inner product over global memory, threadIdx.x along the column of C (source L, its
// naive kernel for batches). The guarded build leaves out what lies outside.

extern "C" __global__ void bmm_naive(const ELEMENT *a, const ELEMENT *b, ELEMENT *c, int m, int n,
                                     int k) {
    const int column = blockIdx.x * BLOCK + threadIdx.x;
    const int row = blockIdx.y * BLOCK + threadIdx.y;
#if GUARDED
    if (row >= m || column >= n) return;
#endif
    // The matrices of a batch lie one behind the other; together they may be larger than an int.
    a += static_cast<size_t>(blockIdx.z) * m * k;
    b += static_cast<size_t>(blockIdx.z) * k * n;
    c += static_cast<size_t>(blockIdx.z) * m * n;
    ELEMENT sum = 0;
    for (int i = 0; i < k; ++i) {
        sum += a[row * k + i] * b[i * n + column];
    }
    c[row * n + column] = sum;
}
