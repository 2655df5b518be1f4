// A block keeps a row of A in an array that is too small for large matrices.
__global__ void multiply(const float *A, const float *B, float *C, int M, int N, int K) {
    __shared__ float row[4096];
    for (int k = threadIdx.x; k < K; k += 64) row[k] = A[(size_t)blockIdx.x * K + k];
    __syncthreads();
    for (int column = threadIdx.x; column < N; column += 64) {
        float sum = 0;
        for (int k = 0; k < K; ++k) sum += row[k] * B[(size_t)k * N + column];
        C[(size_t)blockIdx.x * N + column] = sum;
    }
}
void run(const float *A, const float *B, float *C, int M, int N, int K) {
    multiply<<<M, 64>>>(A, B, C, M, N, K);
}
// expected: :4: multiply, .* of shared memory is out of bounds \(at size \d{4,5}\)
