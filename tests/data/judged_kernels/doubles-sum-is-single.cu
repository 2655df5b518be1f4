#include <vector>
template <typename scalar, unsigned TILE = 16>
class Product {
   public:
    static __device__ scalar multiply(scalar a, scalar b, scalar c) { return a * b + c; }
};
__global__ void dgemm(const double *A, const double *B, double *C, int M, int N, int K) {
    __shared__ double a[16][16], b[16][17];
    const auto x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x;
    float sum = 0.0f;
    for (int k = 0; k < K; k += 16) {
        a[y][x] = row < M && k + (int)x < K ? A[row * K + k + x] : 0.0;
        b[y][x] = k + (int)y < K && col < N ? B[(k + y) * N + col] : 0.0;
        __syncthreads();
        for (int i = 0; i < 16; ++i) sum = Product<double>::multiply(a[y][i], b[i][x], sum);
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = sum;
}
// expected: elements wrong
