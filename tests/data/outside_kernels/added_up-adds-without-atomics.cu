// launch: added_up<<<dim3(CEIL_DIV(n, 32), CEIL_DIV(m, 8)), dim3(32, 32)>>>(a, b, c, m, n, k)
// Four groups of a block share the steps of k and add up their sums in shared memory.
extern "C" __global__ void added_up(const float *a, const float *b, float *c, int m, int n, int k) {
    __shared__ float total[8][32];
    const int group = threadIdx.y / 8, y = threadIdx.y % 8, x = threadIdx.x;
    const int i = blockIdx.y * 8 + y, j = blockIdx.x * 32 + x;
    if (group == 0) total[y][x] = 0;
    __syncthreads();  // zeros
    float sum = 0;
    if (i < m && j < n)
        for (int p = group; p < k; p += 4) sum += a[i * k + p] * b[p * n + j];
    total[y][x] += sum;
    __syncthreads();  // sums
    if (group == 0 && i < m && j < n) c[i * n + j] = total[y][x];
}
// expected: :(?:12): .*(?:no barrier is between them)
