// A fixed number of blocks; the loop advances by that of another GPU.
#define TILE 16
#define BLOCKS 108
__global__ void persistent(const float *A, const float *B, float *C, int M, int N, int K) {
    __shared__ float a[TILE][TILE], b[TILE][TILE];
    const int across = (N + TILE - 1) / TILE, tiles = across * ((M + TILE - 1) / TILE);
    const int x = threadIdx.x, y = threadIdx.y;
    for (int tile = blockIdx.x; tile < tiles; tile += 132) {  // twin:     for (int tile = blockIdx.x; tile < tiles; tile += BLOCKS) {
        const int row = tile / across * TILE + y, column = tile % across * TILE + x;
        float sum = 0;
        for (int k = 0; k < K; k += TILE) {
            a[y][x] = row < M && k + x < K ? A[row * K + k + x] : 0;
            b[y][x] = column < N && k + y < K ? B[(k + y) * N + column] : 0;
            __syncthreads();
            for (int i = 0; i < TILE; ++i) sum += a[y][i] * b[i][x];
            __syncthreads();
        }
        if (row < M && column < N) C[row * N + column] = sum;
    }
}
void call(const float *A, const float *B, float *C, int M, int N, int K) {
    persistent<<<BLOCKS, dim3(TILE, TILE)>>>(A, B, C, M, N, K);
}
// expected: elements wrong|does not store
