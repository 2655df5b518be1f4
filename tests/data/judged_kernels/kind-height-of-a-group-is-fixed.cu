// Blocks are visited in groups of rows, and columns of shared tiles are exchanged by XOR.
#define CEIL_DIV_(a, b) (((a) + (b) - 1) / (b))
__global__ void xor_tiles(const float *A, const float *B, float *C, int n) {
    __shared__ float a[32][32], b[32][32];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int down = gridDim.y, linear = blockIdx.y * gridDim.x + blockIdx.x;
    const int group = linear / (4 * gridDim.x), first = group * 4, height = 4;
    const int by = first + linear % (4 * gridDim.x) % height, bx = linear % (4 * gridDim.x) / height;
    const int row = by * 32 + ty, col = bx * 32 + tx;
    float s = 0;
    for (int t = 0; t < CEIL_DIV_(n, 32); ++t) {
        const int ka = t * 32 + tx, kb = t * 32 + ty;
        a[ty][tx ^ ty] = row < n && ka < n ? A[row * n + ka] : 0;
        b[ty][tx ^ ty] = kb < n && col < n ? B[kb * n + col] : 0;
        __syncthreads();
        for (int e = 0; e < 32; ++e) s += a[ty][e ^ ty] * b[e][tx ^ e];
        __syncthreads();
    }
    if (row < n && col < n) C[row * n + col] = s;
}
// expected: no launch was found
