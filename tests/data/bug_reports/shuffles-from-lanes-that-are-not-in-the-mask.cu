// NVIDIA/cuda-samples #398: the mask of a reduction lacks the lanes that it reads from.
__global__ void by_warps(const float *a, const float *b, float *c, int n) {
    const int row = blockIdx.y, col = blockIdx.x, lane = threadIdx.x;
    float sum = 0;
    for (int k = lane; k < n; k += 32) sum += a[row * n + k] * b[k * n + col];
    for (int d = 16; d > 4; d /= 2) sum += __shfl_down_sync(0xffffffff, sum, d);
    const unsigned mask = __ballot_sync(0xffffffff, lane < 4);  // twin: const unsigned mask = __ballot_sync(0xffffffff, lane < 8);
    if (lane < 4)  // twin: if (lane < 8)
        for (int d = 4; d > 0; d /= 2) sum += __shfl_down_sync(mask, sum, d);
    if (lane == 0) c[row * n + col] = sum;
}
// launch: by_warps<<<dim3(N, N), 32>>>(a, b, c, n)
// expected: :9:.*lane 4, which has ended or is not in the mask
