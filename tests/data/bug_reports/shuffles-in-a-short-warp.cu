// PaddlePaddle/CINN #938: a block has 24 threads, and a reduction reads from lanes that do not exist.
__global__ void short_warp(const float *a, const float *b, float *c, int n) {
    const int row = blockIdx.y, col = blockIdx.x, lane = threadIdx.x;
    float sum = 0;
    for (int k = lane; k < n; k += blockDim.x) sum += a[row * n + k] * b[k * n + col];
    for (int d = 16; d; d >>= 1) sum += __shfl_down_sync(0xffffff, sum, d);  // twin: for (int d = 16; d; d >>= 1) { const float v = __shfl_down_sync(0xffffff, sum, d); if (lane + d < 24) sum += v; }
    if (lane == 0) c[row * n + col] = sum;
}
// launch: short_warp<<<dim3(N, N), 24>>>(a, b, c, n)
// expected: :6:.*which has ended or is not in the mask
