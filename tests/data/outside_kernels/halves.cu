// launch: halves<<<dim3(CEIL_DIV(n, 32), CEIL_DIV(n, 32)), dim3(32, 32)>>>(a, b, c, n)
#include <cuda_fp16.h>
extern "C" __global__ void halves(const float *a, const float *b, float *c, int n) {
    const int row = blockIdx.y * 32 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n && row < n && col < n; ++k) sum += a[row * n + k] * b[k * n + col];
    const __half rounded = __float2half(sum); sum = __half2float(rounded);
    if (row < n && col < n) c[row * n + col] = sum;
}
// expected: :(?:8): .*(?:the error is that of TF32 or 16-bit operands)
