// FindDefinition/cumm #36: an offset in bytes is a product of 32-bit integers.
__global__ void offsets(const float *a, const float *b, float *c, int n) {
    const int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= n || col >= n) return;
    const char *line = (const char *)a + row * n * (int)sizeof(float);  // twin: const char *line = (const char *)a + (size_t)row * n * sizeof(float);
    float sum = 0;
    for (int k = 0; k < n; ++k) sum += ((const float *)line)[k] * b[(size_t)k * n + col];
    c[(size_t)row * n + col] = sum;
}
// expected: :5:.*overflows|:7:.*out of bounds
