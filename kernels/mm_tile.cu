// BLOCK x BLOCK tiles of A and B in shared memory, one element of C a thread, for C[m][n] = A[m][k]
// * B[k][n] of any edges and of three types of elements. threadIdx.x runs along columns, so that
// global memory is read in consecutive words (source L, its tiled kernel). The guarded build fills
// what lies outside the matrices with zeros.

extern "C" __global__ void mm_tile(const ELEMENT *a, const ELEMENT *b, ELEMENT *c, int m, int n,
                                   int k) {
    __shared__ ELEMENT a_tile[BLOCK][BLOCK];
    __shared__ ELEMENT b_tile[BLOCK][BLOCK];
    const int x = threadIdx.x;
    const int y = threadIdx.y;
    const int row = blockIdx.y * BLOCK + y;
    const int column = blockIdx.x * BLOCK + x;

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
        __syncthreads();  // before a faster thread overwrites the tile
    }
#if GUARDED
    if (row >= m || column >= n) return;
#endif
    c[row * n + column] = sum;
}
