// Sums over parts of k in a workspace, and a second kernel that adds the parts.
__global__ void partial_products(const float *a, const float *b, float *parts, int m, int n, int k, int length) {
    const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    if (row >= m || column >= n) return;
    float sum = 0;
    const int end = min(k, (int)(blockIdx.z + 1) * length);
    for (int i = blockIdx.z * length; i < end; ++i) sum += a[row * k + i] * b[i * n + column];
    parts[(blockIdx.z * m + row) * n + column] = sum;
}
__global__ void add_parts(const float *parts, float *c, int count, int number) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float sum = 0;
    for (int part = 0; part < number - 1; ++part) sum += parts[part * count + i]; // twin:     for (int part = 0; part < number; ++part) sum += parts[part * count + i];
    c[i] = sum;
}
void multiply(const float *a, const float *b, float *c, int m, int n, int k) {
    const int splits = 4;
    float *parts;
    cudaMalloc(&parts, splits * m * n * sizeof(float));
    const dim3 block(16, 16), grid((n + 15) / 16, (m + 15) / 16, splits);
    partial_products<<<grid, block>>>(a, b, parts, m, n, k, (k + splits - 1) / splits);
    add_parts<<<(m * n + 255) / 256, 256>>>(parts, c, m * n, splits);
    cudaFree(parts);
}
// expected: :15: add_parts, .* wrong
