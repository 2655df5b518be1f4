// A product per layer of the grid; the matrices of a batch follow each other.
__global__ void batched(const float *a, const float *b, float *c, int count, int m, int n, int k) {
    const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    if (blockIdx.z >= count || row >= m || column >= n) return;
    a += blockIdx.z * m * k;
    b += blockIdx.z * m * k; // twin:     b += blockIdx.z * k * n;
    float sum = 0;
    for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + column];
    c[(blockIdx.z * m + row) * n + column] = sum;
}
void run(const float *a, const float *b, float *c, int batch_count, int m, int n, int k) {
    const dim3 grid((n + 15) / 16, (m + 15) / 16, batch_count), block(16, 16);
    batched<<<grid, block>>>(a, b, c, batch_count, m, n, k);
}
// expected: batched.*\(at size 2x\d+x\d+x\d+\)
