// NVIDIA/cuda-samples #411: the grid is a quotient that is rounded down, so the last rows and columns
// of C are not stored.
#include <cstdio>
#define TILE 16
__global__ void product(float *C, const float *A, const float *B, int hA, int wA, int wB) {
    __shared__ float s[TILE][TILE], t[TILE][TILE];
    const int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    float v = 0;
    for (int k = 0; k < wA; k += TILE) {
        s[threadIdx.y][threadIdx.x] = row < hA && k + threadIdx.x < wA ? A[row * wA + k + threadIdx.x] : 0;
        t[threadIdx.y][threadIdx.x] = k + threadIdx.y < wA && col < wB ? B[(k + threadIdx.y) * wB + col] : 0;
        __syncthreads();
        for (int e = 0; e < TILE; ++e) v += s[threadIdx.y][e] * t[e][threadIdx.x];
        __syncthreads();
    }
    if (row < hA && col < wB) C[row * wB + col] = v;
}
void multiply(float *d_C, float *d_A, float *d_B, int hA, int wA, int wB) {
    dim3 threads(TILE, TILE);
    dim3 blocks(wB / threads.x, hA / threads.y);  // twin: dim3 blocks((wB + TILE - 1) / TILE, (hA + TILE - 1) / TILE);
    product<<<blocks, threads>>>(d_C, d_A, d_B, hA, wA, wB);
}
int main() { printf("one product\n"); }
// expected: does not store C|grid of|multiples of 16
