// The last of two blocks adds what both stored; host execution does not order their stores.
__device__ unsigned arrived[1 << 20];
__global__ void multiply(const float *A, const float *B, float *C, float *parts, int M, int N, int K) {
    __shared__ unsigned before;
    const int column = blockIdx.x * 64 + threadIdx.x, row = blockIdx.y;
    float sum = 0;
    for (int k = blockIdx.z; k < K && column < N; k += 2) sum += A[row * K + k] * B[k * N + column];
    if (column < N) parts[(blockIdx.z * M + row) * N + column] = sum;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) before = atomicAdd(&arrived[row * gridDim.x + blockIdx.x], 1);
    __syncthreads();
    if (before % 2 && column < N) C[row * N + column] = parts[row * N + column] + parts[(M + row) * N + column];
}
void run(const float *A, const float *B, float *C, int M, int N, int K) {
    float *parts;
    cudaMalloc(&parts, 2 * M * N * sizeof(float));
    multiply<<<dim3((N + 63) / 64, M, 2), 64>>>(A, B, C, parts, M, N, K);
}
// expected: multiply: its blocks read what other blocks store before __threadfence
