/* After the samples of a toolkit: sub-matrices of A and B, one after the other. */
// launch: sample<<<dim3(CEIL_DIV(n, 16), CEIL_DIV(m, 16)), dim3(16, 16)>>>(A, B, C, m, n, k)
#define GUARDED 1
#if GUARDED
#define INSIDE(row, col, rows, cols) ((row) < (rows) && (col) < (cols))
#else
#define INSIDE(row, col, rows, cols) true
#endif

template <int BLOCK_SIZE>
__device__ void sample_body(float *C, const float *A, const float *B, int hA, int wA, int wB) {
    int bx = blockIdx.x, by = blockIdx.y;
    int tx = threadIdx.x, ty = threadIdx.y;
    int aBegin = wA * BLOCK_SIZE * by;
    int aEnd = aBegin + wA - 1;
    int aStep = BLOCK_SIZE;
    int bBegin = BLOCK_SIZE * bx;
    int bStep = BLOCK_SIZE * wB;
    float Csub = 0;
    for (int a = aBegin, b = bBegin, k = 0; a <= aEnd; a += aStep, b += bStep, k += BLOCK_SIZE) {
        __shared__ float As[BLOCK_SIZE][BLOCK_SIZE];
        __shared__ float Bs[BLOCK_SIZE][BLOCK_SIZE];
        As[ty][tx] = INSIDE(by * BLOCK_SIZE + ty, k + tx, hA, wA) ? A[a + wA * ty + tx] : 0;
        Bs[ty][tx] = INSIDE(k + ty, bx * BLOCK_SIZE + tx, wA, wB) ? B[b + wB * ty + tx] : 0;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < BLOCK_SIZE; ++i) {
            Csub += As[ty][i] * Bs[i][tx + 1];
        }
        __syncthreads();
    }
    int c = wB * BLOCK_SIZE * by + BLOCK_SIZE * bx;
    if (INSIDE(by * BLOCK_SIZE + ty, bx * BLOCK_SIZE + tx, hA, wB)) C[c + wB * ty + tx] = Csub;
}

extern "C" __global__ void sample(const float *A, const float *B, float *C, int m, int n, int k) {
    sample_body<16>(C, A, B, m, k, n);
}
// expected: :(?:28): .*(?:is outside its array)
