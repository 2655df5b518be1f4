// Two stages in shared memory, 2048 bytes each: addresses of the other differ by one bit, if
// shared memory begins at a multiple of 4096.
__device__ void store(unsigned address, float value) {
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
}
__device__ float load(unsigned address) {
    float value;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(address) : "memory");
    return value;
}
__global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K) {
    __shared__ __align__(4096) float stages[2][2][16][16];
    const int x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
    const unsigned begin = __cvta_generic_to_shared(stages);
    unsigned a = begin + y * 64 + x * 4, b = begin + 1024 + y * 64 + x * 4;
    unsigned a_row = begin + y * 64, b_column = begin + 1024 + x * 4;
    float sum = 0;
    for (int k = 0; k < K; k += 16) {
        store(a, row < M && k + x < K ? A[row * K + k + x] : 0);
        store(b, column < N && k + y < K ? B[(k + y) * N + column] : 0);
        __syncthreads();
        for (int i = 0; i < 16; ++i) sum += load(a_row + i * 4) * load(b_column + i * 64);
        a ^= 2048, a_row ^= 2048;
        b ^= 2048, b_column ^= 2048;  // twin: b += k / 16 % 2 ? -2048 : 2048, b_column += k / 16 % 2 ? -2048 : 2048;
    }
    if (row < M && column < N) C[row * N + column] = sum;
}
void run(const float *A, const float *B, float *C, int M, int N, int K) {
    gemm<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K);
}
// expected: : correct with shared memory that begins at byte 0, as before compute capability 9.0
