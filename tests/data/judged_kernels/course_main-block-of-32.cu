#include <stdio.h>
#include <stdlib.h>
#include <cuda.h>
#define BLOCK 32
#define cudaCheck(x) do { cudaError_t e = (x); if (e != cudaSuccess) { fprintf(stderr, "%s\n", cudaGetErrorString(e)); exit(1); } } while (0)

__global__ void MatrixMulKernel(float* d_M, float* d_N, float* d_P, int Width)
{
    int Row = blockIdx.y * blockDim.y + threadIdx.y;
    int Col = blockIdx.x * blockDim.x + threadIdx.x;
    if ((Row < Width) && (Col < Width)) {
        float Pvalue = 0;
        for (int k = 0; k < Width; ++k) {
            Pvalue += d_M[Row * Width + k] * d_N[k * Width + Col];
        }
        d_P[Row * Width + Col] = Pvalue;
    }
}

int main(int argc, char **argv)
{
    int Width = argc > 1 ? atoi(argv[1]) : 500;
    size_t size = Width * Width * sizeof(float);
    float *M = (float *)malloc(size), *N = (float *)malloc(size), *P = (float *)malloc(size);
    float *d_M, *d_N, *d_P;
    cudaCheck(cudaMalloc((void **)&d_M, size));
    cudaCheck(cudaMalloc((void **)&d_N, size));
    cudaCheck(cudaMalloc((void **)&d_P, size));
    cudaMemcpy(d_M, M, size, cudaMemcpyHostToDevice);
    cudaMemcpy(d_N, N, size, cudaMemcpyHostToDevice);
    dim3 dimGrid(ceil(Width / (float)BLOCK), ceil(Width / (float)BLOCK), 1);
    dim3 dimBlock(BLOCK, BLOCK, 1);
    MatrixMulKernel<<<dimGrid, dimBlock>>>(d_M, d_N, d_P, Width);
    cudaCheck(cudaDeviceSynchronize());
    cudaMemcpy(P, d_P, size, cudaMemcpyDeviceToHost);
    printf("%f\n", P[0]);
    return 0;
}
// expected: correct
