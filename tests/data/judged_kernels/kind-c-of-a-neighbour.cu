__global__ void blend(int n, float alpha, const float *a, const float *b, float beta, float *c) {
    const int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
    if (row >= n || col >= n) return;
    const float other = c[row * n + (col + 1) % n];  // twin: const float other = 0;
    float sum = 0;
    for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + col];
    c[row * n + col] = alpha * sum + beta * c[row * n + col] + 0 * other;
}
// expected: :7:.*store.*races with.*line 4
