// Barriers of the library, whose token is moved.
#include <cuda/barrier>
__global__ void multiply(const float *A, const float *B, float *C, int M, int N, int K) {
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    __shared__ float a[16][16], b[16][16];
    const int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
    if (x + y == 0) init(&bar, 256);
    __syncthreads();
    float sum = 0;
    for (int k = 0; k < K; k += 16) {
        a[y][x] = row < M && k + x < K ? A[row * K + k + x] : 0;
        b[y][x] = k + y < K && column < N ? B[(k + y) * N + column] : 0;
        bar.arrive_and_wait();
        for (int i = 0; i < 16; ++i) sum += a[y][i] * b[i][x];
        auto token = bar.arrive();
        bar.wait(std::move(token));
    }
    if (row < M && column < N) C[row * N + column] = sum;
}
void run(const float *A, const float *B, float *C, int M, int N, int K) {
    multiply<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K);
}
// expected: correct
