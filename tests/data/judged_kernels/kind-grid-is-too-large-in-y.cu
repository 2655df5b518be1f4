// More blocks along y than a GPU launches.
__device__ __forceinline__ float fused(float a, float b, float c) {
    float d;
    d = fmaf(a, b, c);
    return d;
}
__global__ void tall_grid(const float *A, const float *B, float *C, int M, int N, int K) {
    const unsigned across = (N + 31) / 32, col = blockIdx.y % across * 32 + threadIdx.x, row = blockIdx.y / across * 8 + threadIdx.y;
    if (row >= M || col >= N) return;
    float sum = 0.f;
    for (int k = 0; k < K; ++k) sum = fused(__ldg(A + row * K + k), __ldg(B + k * N + col), sum);
    __stcs(C + row * N + col, sum);
}
// launch: tall_grid<<<dim3(1, ((N + 31) / 32) * ((M + 7) / 8)), dim3(32, 8)>>>(A, B, C, M, N, K)
// expected: has a grid of .1, 65536, 1. blocks at size 4089
