// A fixed number of threads walks over all elements of C.
__global__ void grid_stride(const float *A, const float *B, float *C, unsigned M, unsigned N, unsigned K) {
    const unsigned stride = gridDim.x * blockDim.x;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < M * N; i += 2 * stride) {
        const unsigned row = i / N, col = i % N;
        float s = 0;
        for (unsigned k = 0; k < K; ++k) s += __ldg(A + row * K + k) * __ldg(B + k * N + col);
        C[i] = s;
    }
}
// launch: grid_stride<<<8, 256>>>(A, B, C, M, N, K)
// expected: does not store
