// Blocks along a Z curve on a square grid of a power of two; blocks outside leave.
__host__ __device__ inline int edge_of(int n) { int e = 1; while (e * 16 < n) e *= 2; return e; }
__device__ inline int even_bits(unsigned v) {
    int r = 0;
    for (int i = 0; i < 16; ++i) r |= (v >> 2 * i & 1) << i;
    return r;
}
__global__ void zcurve(const float *A, const float *B, float *C, int N) {
    const int bx = even_bits(blockIdx.x), by = even_bits(blockIdx.x >> 1);
    const int col = bx * 16 + threadIdx.x, row = by * 16 + threadIdx.y;
    if (col >= N || row >= N) return;
    float acc = 0;
    #pragma unroll 4
    for (int k = 0; k < N; ++k) acc += A[row * N + k] * B[k * N + col];
    C[row * N + col] = acc;
}
void zlaunch(const float *A, const float *B, float *C, int N) {
    const int e = edge_of(N);
    zcurve<<<e * e, dim3(16, 16)>>>(A, B, C, N);
}
// expected: correct
