// Each thread computes four columns, COARSE apart.
#define TILE 16
#define COARSE 2
__global__ void coarsened(float *A, float *B, float *C, int width) {
    __shared__ float Mds[TILE][TILE];
    __shared__ float Nds[TILE][TILE];
    int bx = blockIdx.x, by = blockIdx.y, tx = threadIdx.x, ty = threadIdx.y;
    int row = by * TILE + ty, colStart = bx * TILE * COARSE + tx;
    float Pvalue[COARSE];
    for (int c = 0; c < COARSE; ++c) Pvalue[c] = 0.0f;
    for (int ph = 0; ph < (width + TILE - 1) / TILE; ++ph) {
        Mds[ty][tx] = row < width && ph * TILE + tx < width ? A[row * width + ph * TILE + tx] : 0.0f;
        for (int c = 0; c < COARSE; ++c) {
            int col = colStart + c * TILE;
            Nds[ty][tx] = ph * TILE + ty < width && col < width ? B[(ph * TILE + ty) * width + col] : 0.0f;
            __syncthreads();
            for (int k = 0; k < TILE; ++k) Pvalue[c] += Mds[ty][k] * Nds[k][tx];
            __syncthreads();
        }
    }
    for (int c = 0; c < COARSE; ++c) {
        int col = colStart + c * TILE;
        if (row < width && col < width) C[row * width + col] = Pvalue[c];
    }
}
void run(float *A, float *B, float *C, int width) {
    dim3 grid((width + TILE * COARSE - 1) / (TILE * COARSE), (width + TILE - 1) / TILE);
    coarsened<<<grid, dim3(TILE, TILE)>>>(A, B, C, width);
}
// expected: correct
