// launch: batched<<<dim3(CEIL_DIV(n, 16), CEIL_DIV(m, 16), BATCH), dim3(16, 16)>>>(A, B, C, m, n, k)
extern "C" __global__ void batched(const float *A, const float *B, float *C, int m, int n, int k) {
    const size_t batch = blockIdx.z;
    const size_t strideA = (size_t)m * k, strideB = (size_t)k * n, strideC = (size_t)m * n;
    A += batch * strideA, B += batch * strideC, C += batch * strideC;
    __shared__ float As[16][17], Bs[16][17];
    const unsigned row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (unsigned k0 = 0; k0 < (unsigned)k; k0 += 16) {
        const unsigned ak = k0 + threadIdx.x, bk = k0 + threadIdx.y;
        As[threadIdx.y][threadIdx.x] = row < m && ak < k ? A[row * k + ak] : 0;
        Bs[threadIdx.y][threadIdx.x] = bk < k && col < n ? B[bk * n + col] : 0;
        __syncthreads();
        for (int i = 0; i < 16; ++i) sum += As[threadIdx.y][i] * Bs[i][threadIdx.x];
        __syncthreads();
    }
    if (row < m && col < n) C[row * n + col] = sum;
}
// expected: :(?:17): .*(?:elements wrong|is out of bounds)
