// flashinfer-ai/flashinfer #4724: the epilogue loads C also if beta is 0, and C has no value.
__device__ float blended(float alpha, float sum, float beta, const float *c) {
    return alpha * sum + beta * *c;  // twin: return alpha * sum + (beta == 0 ? 0 : beta * *c);
}
__global__ void simple(const float *A, const float *B, float *C, int M, int N, int K) {
    const int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = blended(1.0f, sum, 0.0f, &C[row * N + col]);
}
// expected: :3:.*C\(0, 0\) is uninitialised
