// NVIDIA/cutlass #3394: loads use the coordinates behind a swizzle of blocks, and other code those
// before it.
#define G 4
__global__ void swizzled(const float *a, const float *b, float *c, int n) {
    const int across = gridDim.x, first = blockIdx.y * across + blockIdx.x;
    const int group = first / (G * across), in = first % (G * across);
    const int height = min((int)gridDim.y - group * G, G);
    const int by = group * G + in % height, bx = in / height;
    const int row = by * 16 + threadIdx.y, col = bx * 16 + threadIdx.x;
    if (row >= n || col >= n) return;
    float sum = 0;
    for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + col];
    const int out = blockIdx.y * 16 + threadIdx.y;  // twin: const int out = row;
    c[out * n + col] = sum;
}
// launch: swizzled<<<dim3(CEIL_DIV(N, 16), CEIL_DIV(N, 16)), dim3(16, 16)>>>(a, b, c, n)
// expected: :14:.*(races|elements wrong|does not store)
