// tpoisonooo/how-to-optimize-gemm #19: x and y of the block are exchanged in the offsets of A and B.
template <int BLOCK>
__global__ void exchanged(int m, int n, int k, const float *a, const float *b, float *c) {
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int by = blockIdx.x, bx = blockIdx.y;  // twin: const int bx = blockIdx.x, by = blockIdx.y;
    const float *begin_a = a + by * BLOCK * k, *begin_b = b + bx * BLOCK;
    float sum = 0;
    for (int p = 0; p < k; ++p) sum += begin_a[ty * k + p] * begin_b[p * n + tx];
    c[(by * BLOCK + ty) * n + bx * BLOCK + tx] = sum;
}
void MY_MMult(int m, int n, int k, const float *d_A, const float *d_B, float *d_C) {
    constexpr int BLOCK = 16;
    dim3 block(BLOCK, BLOCK), grid((n + BLOCK - 1) / BLOCK, (m + BLOCK - 1) / BLOCK);
    exchanged<BLOCK><<<grid, block>>>(m, n, k, d_A, d_B, d_C);
}
// expected: :(8|9):.*(does not store|out of bounds|elements wrong)
