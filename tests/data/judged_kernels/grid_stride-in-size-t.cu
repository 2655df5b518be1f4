// A fixed number of threads walks over all elements of C.
__global__ void grid_stride(const float *A, const float *B, float *C, size_t M, size_t N, size_t K) {
    const size_t stride = gridDim.x * blockDim.x;
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < M * N; i += stride) {
        const size_t row = i / N, col = i % N;
        float s = 0;
        for (size_t k = 0; k < K; ++k) s += __ldg(A + row * K + k) * __ldg(B + k * N + col);
        C[i] = s;
    }
}
// launch: grid_stride<<<8, 256>>>(A, B, C, M, N, K)
// expected: correct
