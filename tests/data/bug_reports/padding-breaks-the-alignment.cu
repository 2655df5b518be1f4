// AyakaGEMM/Hands-on-GEMM #11: rows of a shared tile have an odd number of floats, and are read as
// float4.
#define PAD 1  // twin: #define PAD 4
__global__ void padded(const float *A, const float *B, float *C, int N) {
    __shared__ __align__(16) float sa[32][32 + PAD], sb[32][32 + PAD];
    const int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 32 + y, col = blockIdx.x * 32 + 4 * x;
    float4 sum = make_float4(0, 0, 0, 0);
    for (int k = 0; k < N; k += 32) {
        for (int j = 4 * x; j < 4 * x + 4; ++j) {
            sa[y][j] = row < N && k + j < N ? A[row * N + k + j] : 0;
            sb[y][j] = k + y < N && blockIdx.x * 32 + j < N ? B[(k + y) * N + blockIdx.x * 32 + j] : 0;
        }
        __syncthreads();
        for (int e = 0; e < 32; ++e) {
            const float4 b = *reinterpret_cast<float4 *>(&sb[e][4 * x]);
            const float a = sa[y][e];
            sum.x += a * b.x, sum.y += a * b.y, sum.z += a * b.z, sum.w += a * b.w;
        }
        __syncthreads();
    }
    const float out[] = {sum.x, sum.y, sum.z, sum.w};
    for (int j = 0; j < 4; ++j) if (row < N && col + j < N) C[row * N + col + j] = out[j];
}
// launch: padded<<<dim3(CEIL_DIV(N, 32), CEIL_DIV(N, 32)), dim3(8, 32)>>>(A, B, C, N)
// expected: :15:.*misaligned
