__global__ void halves(const float *a, const float *b, float *c, int n) {
    __shared__ float part[32];
    const int row = blockIdx.y, lane = threadIdx.x, col = blockIdx.x;
    float sum = 0;
    for (int k = lane; k < n; k += 32) sum += a[row * n + k] * b[k * n + col];
    part[lane] = sum;
    __syncwarp(lane < 16 ? 0xffff : 0xffff0000);  // twin: __syncwarp();
    if (lane < 16) sum += part[lane + 16];
    __syncwarp();
    for (int d = 8; d; d /= 2) sum += __shfl_xor_sync(0xffffffff, sum, d);
    if (lane == 0) c[row * n + col] = sum;
}
// launch: halves<<<dim3(N, N), 32>>>(a, b, c, n)
// expected: :8:.*races with|:6:.*races with
