// numba/numba #6884: a thread leaves only if its row and its column are outside of C.
__global__ void matmul(const float *A, const float *B, float *C, int rows, int inner, int cols) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= rows && y >= cols) return;  // twin: if (x >= rows || y >= cols) return;
    float total = 0;
    for (int i = 0; i < inner; i++) total += A[x * inner + i] * B[i * cols + y];
    C[x * cols + y] = total;
}
// launch: matmul<<<dim3(CEIL_DIV(M, 8), CEIL_DIV(N, 32)), dim3(8, 32)>>>(A, B, C, M, K, N)
// expected: :6:.*out of bounds|:7:.*(out of bounds|races)
