// launch: rasterised<<<dim3(CEIL_DIV(n, 16), CEIL_DIV(m, 16)), dim3(16, 16)>>>(A, B, C, m, n, k)
// Blocks in groups of four rows, for the reuse of B in L2.
extern "C" __global__ void rasterised(const float *A, const float *B, float *C, int M, int N, int K) {
    const int id = blockIdx.y * gridDim.x + blockIdx.x, per_group = 4 * gridDim.x;
    const int first = id / per_group * 4, height = min(4, (int)gridDim.y - first);
    const int by = first + id % per_group % 3, bx = id % per_group / height;
    __shared__ float sa[16][16], sb[16][16];
    const int r = by * 16 + threadIdx.y, s = bx * 16 + threadIdx.x;
    float acc = 0;
    for (int k = 0; k < K; k += 16) {
        sa[threadIdx.y][threadIdx.x] = r < M && k + threadIdx.x < K ? A[r * K + k + threadIdx.x] : 0;
        sb[threadIdx.y][threadIdx.x] = s < N && k + threadIdx.y < K ? B[(k + threadIdx.y) * N + s] : 0;
        __syncthreads();
        for (int i = 0; i < 16; ++i) acc += sa[threadIdx.y][i] * sb[i][threadIdx.x];
        __syncthreads();
    }
    if (r < M && s < N) C[r * N + s] = acc;
}
// expected: :(?:17): .*(?:of this or an earlier block|does not store C)
