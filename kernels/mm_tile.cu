// mm_naive with BLOCK x BLOCK tiles of A and B in shared memory: a word that a block has fetched
// serves BLOCK threads, so global traffic falls by a factor of BLOCK (source L, its tiled kernel).
// threadIdx.x runs along columns, so the loads of both tiles are coalesced. Shapes and element
// types are those of mm_naive. The guarded build fills the outside of the matrices with zeros.

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
        __syncthreads();  // all threads have read the tiles
    }
#if GUARDED
    if (row >= m || column >= n) return;
#endif
    c[row * n + column] = sum;
}
