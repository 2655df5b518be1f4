extern __shared__ float line[];
__global__ void rows(const float *a, const float *b, float *c, int n) {
    const int row = blockIdx.x;
    for (int k = threadIdx.x; k < n; k += 64) line[k] = a[row * n + k];
    __syncthreads();
    for (int col = threadIdx.x; col < n; col += 64) {
        float sum = 0;
        for (int k = 0; k < n; ++k) sum += line[k] * b[k * n + col];
        c[row * n + col] = sum;
    }
}
// launch: rows<<<N, 64, 2 * n * sizeof(float)>>>(a, b, c, n)
// expected: needs 232,456 bytes of dynamic shared memory per block at size 29057
