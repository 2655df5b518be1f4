// Zeros, then every part of k adds to C.
__global__ void add_products(const float *A, const float *B, float *C, int M, int N, int K, int length) {
    const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || column >= N) return;
    float sum = 0;
    const int end = min(K, (int)(blockIdx.z + 1) * length);
    for (int i = blockIdx.z * length; i < end; ++i) sum += A[row * K + i] * B[i * N + column];
    atomicAdd(&C[row * N + column], sum);
}
int main() {
    int M = 1024, N = 512, K = 2048;
    float *d_A, *d_B, *d_C;
    cudaMalloc((void **)&d_A, M * K * sizeof(float));
    cudaMalloc((void **)&d_B, N * K * sizeof(float));
    cudaMalloc((void **)&d_C, M * N * sizeof(float));
    add_products<<<dim3((N + 15) / 16, (M + 15) / 16, 4), dim3(16, 16)>>>(d_A, d_B, d_C, M, N, K, (K + 3) / 4); // twin:     cudaMemset(d_C, 0, M * N * sizeof(float));
    cudaMemset(d_C, 0, M * N * sizeof(float)); // twin:     add_products<<<dim3((N + 15) / 16, (M + 15) / 16, 4), dim3(16, 16)>>>(d_A, d_B, d_C, M, N, K, (K + 3) / 4);
}
// expected: :8: add_products, .* 4096 of 4096 elements wrong; the worst is C.* = nan
