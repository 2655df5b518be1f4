// launch: textbook<<<dim3(CEIL_DIV(n, 32), CEIL_DIV(n, 16)), dim3(16, 16)>>>(M, N, P, n)
#include <cuda_runtime.h>
#define TILE_WIDTH 16
#define COARSE 2  /* tiles of C a block, side by side */

extern "C" __global__ void textbook(float *M, float *N, float *P, int Width) {
    __shared__ float Mds[TILE_WIDTH][TILE_WIDTH];
    __shared__ float Nds[TILE_WIDTH][TILE_WIDTH];
    int bx = blockIdx.x; int by = blockIdx.y;
    int tx = threadIdx.x; int ty = threadIdx.y;
    int Row = by * TILE_WIDTH + ty;
    int colStart = bx * TILE_WIDTH * COARSE + tx;
    float Pvalue[COARSE];
    for (int c = 0; c < COARSE; ++c) Pvalue[c] = 0.0f;
    for (int ph = 0; ph < Width / TILE_WIDTH; ++ph) {
        if ((Row < Width) && (ph * TILE_WIDTH + tx) < Width)
            Mds[ty][tx] = M[Row * Width + ph * TILE_WIDTH + tx];
        else
            Mds[ty][tx] = 0.0f;
        for (int c = 0; c < COARSE; ++c) {
            int Col = colStart + c * TILE_WIDTH;
            if ((ph * TILE_WIDTH + ty) < Width && Col < Width)
                Nds[ty][tx] = N[(ph * TILE_WIDTH + ty) * Width + Col];
            else
                Nds[ty][tx] = 0.0f;
            __syncthreads();
            for (int k = 0; k < TILE_WIDTH; ++k) Pvalue[c] += Mds[ty][k] * Nds[k][tx];
            __syncthreads();
        }
    }
    for (int c = 0; c < COARSE; ++c) {
        int Col = colStart + c * TILE_WIDTH;
        if ((Row < Width) && (Col < Width)) P[Row * Width + Col] = Pvalue[c];
    }
}
// expected: :(?:33): .*(?:elements wrong)
