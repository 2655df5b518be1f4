// The next tile is loaded to registers while this one is used.
struct Shape { int M, N, K; };
namespace kernels {
constexpr int T = 16;
__device__ __forceinline__ float at(const float *p, int r, int c, int rows, int cols) {
    return r < rows && c <= cols ? p[r * cols + c] : 0.0f;
}
__global__ void prefetch(const float *A, const float *B, float *C, int M, int N, int K) {
    __shared__ float a[T][T + 1], b[T][T + 1];
    const int y = threadIdx.y, x = threadIdx.x;
    const int row = blockIdx.y * T + y, col = blockIdx.x * T + x;
    float na = at(A, row, x, M, K), nb = at(B, y, col, K, N), sum = 0.0f;
    for (int k = 0; k < K; k += T) {
        a[y][x] = na;
        b[y][x] = nb;
        __syncthreads();
        na = at(A, row, k + T + x, M, K);
        nb = at(B, k + T + y, col, K, N);
        for (int i = 0; i < T; i++) sum += a[y][i] * b[i][x];
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = sum;
}
}  // namespace kernels
// expected: out of bounds|elements wrong
