// Block j keeps column j of B in shared memory; thread i computes C(i, j). N blocks of N threads,
// so N is at most the threads of a block. Every global access has stride n across the lanes:
// loading the column, reading A, writing C (source V, Table 3: slower than naive).

extern "C" __global__ void buffered_column(const float *a, const float *b, float *c, int n) {
    extern __shared__ float smem[];  // n floats: column j of B
    const int row = threadIdx.x;
    const int column = blockIdx.x;

    smem[row] = b[row * n + column];
    __syncthreads();

    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        sum += a[row * n + k] * smem[k];
    }
    c[row * n + column] = sum;
}
