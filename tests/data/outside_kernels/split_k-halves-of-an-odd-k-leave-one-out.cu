// launch: split_k<<<dim3(CEIL_DIV(n, 32), CEIL_DIV(m, 4)), dim3(32, 8)>>>(a, b, c, m, n, k)
// Two groups of a block's threads share the steps of k, and add their sums at the end.
extern "C" __global__ void split_k(const float *a, const float *b, float *c, int m, int n, int k) {
    __shared__ float partial[4][32];
    const int group = threadIdx.y / 4, line = threadIdx.y % 4;
    const int row = blockIdx.y * 4 + line, col = blockIdx.x * 32 + threadIdx.x;
    const bool inside = row < m && col < n;
    const int half = k / 2, begin = group * half, end = min(begin + half, k);
    float sum = 0;
    for (int i = begin; inside && i < end; ++i) sum += a[row * k + i] * b[i * n + col];
    if (group == 1) partial[line][threadIdx.x] = sum;
    __syncthreads();
    if (group == 0 && inside) c[row * n + col] = sum + partial[line][threadIdx.x];
}
// expected: :(?:13): .*(?:elements wrong; the worst is C)
