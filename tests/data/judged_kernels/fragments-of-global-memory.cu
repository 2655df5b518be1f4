// Tensor cores load and store global memory only.
#include <mma.h>
using namespace nvcuda::wmma;
__global__ void multiply(const half *A, const half *B, float *C, int M, int N, int K) {
    fragment<matrix_a, 16, 16, 16, half, row_major> a;
    fragment<matrix_b, 16, 16, 16, half, row_major> b;
    fragment<accumulator, 16, 16, 16, float> c;
    fill_fragment(c, 0.0f);
    for (int k = 0; k < K; k += 16) {
        load_matrix_sync(a, A + blockIdx.y * 16 * K + k, K);
        load_matrix_sync(b, B + k * N + blockIdx.x * 16, N);
        mma_sync(c, a, b, c);
    }
    const size_t offset = (size_t)(blockIdx.y * N + blockIdx.x) * 64;
    store_matrix_sync((float *)((char *)C + offset), c, N, mem_row_major);
}
void run(const half *A, const half *B, float *C, int M, int N, int K) {
    multiply<<<dim3(N / 16, M / 16), 32>>>(A, B, C, M, N, K);
}
// expected: correct
