// A fixed number of blocks takes tiles in turn.
#define T 32
__global__ void persistent_gemm(const float *A, const float *B, float *C, int M, int N, int K) {
    __shared__ float a[T][T + 1], b[T][T + 1];
    const int tiles_n = (N + T - 1) / T, tiles = tiles_n * ((M + T - 1) / T);
    float acc = 0.f;
for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const int row = tile / tiles_n * T + threadIdx.y, col = tile % tiles_n * T + threadIdx.x;  // twin: const int row = tile / tiles_n * T + threadIdx.y, col = tile % tiles_n * T + threadIdx.x; acc = 0.f;
                    for (int k0 = 0; k0 < K; k0 += T) {
            a[threadIdx.y][threadIdx.x] = row < M && k0 + threadIdx.x < K ? A[row * K + k0 + threadIdx.x] : 0.f;
            b[threadIdx.y][threadIdx.x] = k0 + threadIdx.y < K && col < N ? B[(k0 + threadIdx.y) * N + col] : 0.f;
            __syncthreads();
            for (int k = 0; k < T; ++k) acc += a[threadIdx.y][k] * b[k][threadIdx.x];
            __syncthreads();
        }
        if (row < M && col < N) C[row * N + col] = acc;
    }
}
int main() {
    const int M = 2048, N = 2048, K = 2048;
    int sms = 108;
    float *A, *B, *C;
    cudaMalloc(&A, M * K * 4); cudaMalloc(&B, K * N * 4); cudaMalloc(&C, M * N * 4);
    persistent_gemm<<<sms, dim3(T, T)>>>(A, B, C, M, N, K);
    cudaDeviceSynchronize();
}
// expected: elements wrong
