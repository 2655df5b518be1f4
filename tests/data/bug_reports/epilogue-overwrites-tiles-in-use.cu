// KnowingNothing/MatmulTutorial #13: C is staged in the memory of the tiles of A and B, without a
// barrier behind the last product.
#define SIDE 16
__global__ void staged(const float *A, const float *B, float *C, int M, int N, int K) {
    __shared__ float memory[2 * SIDE * SIDE];
    float *a = memory, *b = memory + SIDE * SIDE, *out = memory;
    const int x = threadIdx.x, y = threadIdx.y, at = y * SIDE + x;
    const int row = blockIdx.y * SIDE + y, column = blockIdx.x * SIDE + x;
    float sum = 0;
    for (int k = 0; k < K; k += SIDE) {
        __syncthreads();
        a[at] = row < M && k + x < K ? A[row * K + k + x] : 0;
        b[at] = k + y < K && column < N ? B[(k + y) * N + column] : 0;
        __syncthreads();
        for (int i = 0; i < SIDE; ++i) sum += a[y * SIDE + i] * b[i * SIDE + x];
    }
    // twin: __syncthreads();
    out[at] = sum;
    __syncthreads();
    if (row < M && column < N) C[row * N + column] = out[at];
}
// expected: :(15|18):.*races with
