// Four groups of threads each sum a quarter of K; atomics add the parts in shared memory.
__global__ void quarters(const float *a, const float *b, float *c, int m, int n, int k) {
    __shared__ float part[8][8];
    const int x = threadIdx.x, y = threadIdx.y, z = threadIdx.z;
    const int row = blockIdx.y * 8 + y, col = blockIdx.x * 8 + x;
    if (z == 0) part[y][x] = 0.0f;  // twin: if (z == 0) part[y][x] = 0.0f; __syncthreads();
    if (row < m && col < n) {
        float s = 0;
        for (int i = z; i < k; i += 4) s += a[row * k + i] * b[i * n + col];
        atomicAdd(&part[y][x], s);
    }
    __syncthreads();
    if (z == 0 && row < m && col < n) c[row * n + col] = part[y][x];
}
// launch: quarters<<<dim3(CEIL_DIV(n, 8), CEIL_DIV(m, 8)), dim3(8, 8, 4)>>>(a, b, c, m, n, k)
// expected: :10: .*races with thread .* at line 6
