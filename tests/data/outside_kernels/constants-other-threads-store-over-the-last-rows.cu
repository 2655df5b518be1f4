// launch: constants<<<dim3(CEIL_DIV(n, 32), CEIL_DIV(n, 32)), dim3(32, 8)>>>(A, B, C, n)
// Offsets of a thread's rows in constant memory; rows of B straight from L1.
__constant__ int ROW_OFFSETS[4] = {0, 8, 16, 20};
constexpr int SUMS = 4;
struct Sums { float value[4]; };

extern "C" __global__ void constants(const float *A, const float *B, float *C, int n) {
    __shared__ float As[32][4];
    const int col = blockIdx.x * 32 + threadIdx.x, row0 = blockIdx.y * 32;
    const int tid = threadIdx.y * 32 + threadIdx.x;
    Sums sums = {};
    for (int k0 = 0; k0 < n; k0 += 4) {
        const int fillRow = tid / 4, fillK = tid % 4, row = row0 + fillRow;
        if (tid < 128)
            As[fillRow][fillK] = row < n && k0 + fillK < n ? A[row * n + k0 + fillK] : 0;
        __syncthreads();
        for (int k = 0; k < min(4, n - k0); ++k) {
            const float right = col < n ? __ldg(&B[(k0 + k) * n + col]) : 0;
            for (int i = 0; i < SUMS; ++i)
                sums.value[i] += As[ROW_OFFSETS[i] + threadIdx.y][k] * right;
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i) {
        const int row = row0 + ROW_OFFSETS[i] + threadIdx.y;
        if (row < n && col < n) C[row * n + col] = sums.value[i];
    }
}
// expected: :(?:26): .*(?:does not store C)
