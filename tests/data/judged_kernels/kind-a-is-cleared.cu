__global__ void mine(const float *a, const float *b, float *c, int n) {
    const int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
    if (row >= n || col >= n) return;
    float sum = 0;
    for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + col];
    c[row * n + col] = sum;
    if (col == 0) const_cast<float *>(a)[row * n + n - 1] = 0;
}
// expected: :[57]:.*A\(0, 127\)|stores to A
