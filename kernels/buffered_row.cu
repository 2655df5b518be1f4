// Block i copies row i of A to shared memory, because all of its threads need that row: thread j
// computes C(i, j) from it and from column j of B. Every global access is coalesced, so this buffer
// is worth its barrier (source V, Table 4: up to 1.75 times faster than naive). B is still read
// from global memory once per row of C. One block has n threads, so n cannot exceed the largest
// block.

extern "C" __global__ void buffered_row(const float *a, const float *b, float *c, int n) {
    extern __shared__ float smem[];  // n floats: row i of A
    const int row = blockIdx.x;
    const int column = threadIdx.x;

    smem[column] = a[row * n + column];
    __syncthreads();

    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        sum += smem[k] * b[k * n + column];
    }
    c[row * n + column] = sum;
}
