// Block j copies column j of B to shared memory, and thread i computes C(i, j) from it and from row
// i of A. The buffer saves the loads of B, but those were broadcasts and nearly free. The loads of
// A remain uncoalesced, since neighbouring lanes read neighbouring rows, and so do the load of the
// column and the store of C. The kernel is therefore slower than naive (source V, Table 3): a
// buffer does not help if it holds the wrong operand. One block has n threads, so n cannot exceed
// the largest block.

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
