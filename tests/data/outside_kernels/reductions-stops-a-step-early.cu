// launch: reductions<<<dim3(CEIL_DIV(n, 1), CEIL_DIV(n, 8)), dim3(32, 8)>>>(a, b, c, n)
template <unsigned W = 32> __device__ float warp_sum(float v) {
#pragma unroll
    for (unsigned delta = W / 2; delta > 1; delta >>= 1) v += __shfl_xor_sync(~0u, v, delta);
    return v;
}
extern "C" __global__ void reductions(const float *a, const float *b, float *c, int n) {
    const int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x;
    float partial = 0;
    for (int k = threadIdx.x; i < n && k < n; k += warpSize) partial += a[i * n + k] * b[k * n + j];
    const float sum = warp_sum(partial);
    if (threadIdx.x == 0 && i < n) c[i * n + j] = sum;
}
// expected: :(?:12): .*(?:elements wrong)
