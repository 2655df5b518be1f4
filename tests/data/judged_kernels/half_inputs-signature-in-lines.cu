#include <cuda_fp16.h>
__global__ void hgemm(const half *__restrict__ A,
                      const half *__restrict__ B,
                      float *__restrict__ C,
                      int M, int N, int K) {
    const int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += __half2float(A[row * K + k]) * __half2float(B[k * N + col]);
    C[row * N + col] = sum;
}
// expected: correct
