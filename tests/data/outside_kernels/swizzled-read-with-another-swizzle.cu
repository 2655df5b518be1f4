// launch: swizzled<<<dim3(CEIL_DIV(n, 32), CEIL_DIV(m, 32)), dim3(32, 8)>>>(A, B, C, m, n, k)
#define SWIZZLE(row, col) ((col) ^ (row))
extern "C" __global__ void swizzled(const float *A, const float *B, float *C, int M, int N, int K) {
    __shared__ float At[32][32], Bs[32][32];  // A transposed, without conflicts
    const int lane = threadIdx.x, warp = threadIdx.y;
    const int row0 = blockIdx.y * 32, col = blockIdx.x * 32 + lane;
    float acc[4] = {0.f, 0.f, 0.f, 0.f};
    for (int k0 = 0; k0 < K; k0 += 32) {
#pragma unroll 4
        for (int r = warp; r < 32; r += 8) {
            const bool in = row0 + r < M && k0 + lane < K;
            At[lane][SWIZZLE(lane, r)] = in ? A[(row0 + r) * K + k0 + lane] : 0.f;
            Bs[r][lane] = k0 + r < K && col < N ? B[(k0 + r) * N + col] : 0.f;
        }
        __syncthreads();
        for (int k = 0; k < 32; ++k) {
            for (int i = 0; i < 4; ++i) acc[i] += At[k][SWIZZLE(k + 1 & 31, warp * 4 + i)] * Bs[k][lane];
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i) {
        const int row = row0 + warp * 4 + i;
        if (row < M && col < N) C[row * N + col] = acc[i];
    }
}
// expected: :(?:23): .*(?:elements wrong)
