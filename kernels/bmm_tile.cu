// mm_tile for a batch of products in one launch; blockIdx.z is the number of the product (source L,
// its tiled kernel for batches). As in mm_tile, BLOCK x BLOCK tiles in shared memory divide global
// traffic by BLOCK, and a thread computes one element of C. The guarded build fills the outside of
// the matrices with zeros.

extern "C" __global__ void bmm_tile(const ELEMENT *a, const ELEMENT *b, ELEMENT *c, int m, int n,
                                    int k) {
    __shared__ ELEMENT a_tile[BLOCK][BLOCK];
    __shared__ ELEMENT b_tile[BLOCK][BLOCK];
    const int x = threadIdx.x;
    const int y = threadIdx.y;
    const int row = blockIdx.y * BLOCK + y;
    const int column = blockIdx.x * BLOCK + x;
    // The matrices of a batch are contiguous. Their offset may exceed an int.
    a += static_cast<size_t>(blockIdx.z) * m * k;
    b += static_cast<size_t>(blockIdx.z) * k * n;
    c += static_cast<size_t>(blockIdx.z) * m * n;

    ELEMENT sum = 0;
    for (int tile = 0; tile < k; tile += BLOCK) {
#if GUARDED
        a_tile[y][x] = row < m && tile + x < k ? a[row * k + tile + x] : 0;
        b_tile[y][x] = tile + y < k && column < n ? b[(tile + y) * n + column] : 0;
#else
        a_tile[y][x] = a[row * k + tile + x];
        b_tile[y][x] = b[(tile + y) * n + column];
#endif
        __syncthreads();  // the tiles are complete
        for (int i = 0; i < BLOCK; ++i) {
            sum += a_tile[y][i] * b_tile[i][x];
        }
        __syncthreads();  // all threads have read the tiles
    }
#if GUARDED
    if (row >= m || column >= n) return;
#endif
    c[row * n + column] = sum;
}
