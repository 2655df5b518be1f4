// mm_naive for a batch of products in one launch; blockIdx.z is the number of the product (source
// L, its naive kernel for batches). A small product alone leaves most SMs idle, and a launch per
// product would cost some microseconds each. The guarded build returns where a thread is outside of
// C.

extern "C" __global__ void bmm_naive(const ELEMENT *a, const ELEMENT *b, ELEMENT *c, int m, int n,
                                     int k) {
    const int column = blockIdx.x * BLOCK + threadIdx.x;
    const int row = blockIdx.y * BLOCK + threadIdx.y;
#if GUARDED
    if (row >= m || column >= n) return;
#endif
    // The matrices of a batch are contiguous. Their offset may exceed an int.
    a += static_cast<size_t>(blockIdx.z) * m * k;
    b += static_cast<size_t>(blockIdx.z) * k * n;
    c += static_cast<size_t>(blockIdx.z) * m * n;
    ELEMENT sum = 0;
    for (int i = 0; i < k; ++i) {
        sum += a[row * k + i] * b[i * n + column];
    }
    c[row * n + column] = sum;
}
