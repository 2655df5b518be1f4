// njuhope/cuda_sgemm #4: the kernel's x is the column, the host's grid.x counts rows.
#define DIM 32
__global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K) {
    const int col = blockIdx.x * DIM + threadIdx.x, row = blockIdx.y * DIM + threadIdx.y;
    if (row >= M || col >= N) return;
    float s = 0;
    for (int k = 0; k < K; ++k) s = fmaf(A[row * K + k], B[k * N + col], s);
    C[row * N + col] = s;
}
void test(const float *dA, const float *dB, float *dC, int m, int n, int k) {
    dim3 grid((m + DIM - 1) / DIM, (n + DIM - 1) / DIM);  // twin: dim3 grid((n + DIM - 1) / DIM, (m + DIM - 1) / DIM);
    gemm<<<grid, dim3(DIM, DIM)>>>(dA, dB, dC, m, n, k);
}
// expected: :8:.*does not store
