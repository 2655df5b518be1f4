#include <cuda_fp16.h>
// Two launches round the operands to half; a third one multiplies.
__global__ void to_half(half *out, const float *in, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i] = __float2half(in[i]);
}
__global__ void layer(const half *x, const half *w, float *y, int m, int n, int k) {
    const int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= m || column >= n) return;
    float sum = 0;
    for (int i = 0; i < k; ++i) sum += __half2float(x[row * k + i]) * __half2float(w[i * n + column]);
    y[row * n + column] = sum;
}
void forward(const float *x, const float *w, float *y, int m, int n, int k) {
    half *x_half, *w_half;
    cudaMalloc((void **)&x_half, m * k * sizeof(half));
    cudaMalloc((void **)&w_half, k * n * sizeof(half));
    to_half<<<(m * k + 255) / 256, 256>>>(x_half, x, m * k);
    to_half<<<(k * n + 255) / 256, 256>>>(w_half, w, k * m); // twin:     to_half<<<(k * n + 255) / 256, 256>>>(w_half, w, k * n);
    dim3 blocks, threads;
    threads.x = 16;
    threads.y = 8;
    blocks.x = (n + threads.x - 1) / threads.x;
    blocks.y = (m + threads.y - 1) / threads.y;
    layer<<<blocks, threads>>>(x_half, w_half, y, m, n, k);
}
// expected: (to_half|layer), .*(w_half.* is uninitialised|of B, which has \d+ elements, is out of bounds)
