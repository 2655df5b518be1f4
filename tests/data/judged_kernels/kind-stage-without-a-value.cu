__global__ void mine(const float *a, const float *b, float *c, int n) {
    const int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
    if (row >= n || col >= n) return;
    float sum = 0;
    int at;  // twin: int at = 0;
    float stage[2] = {};
    for (int k = 0; k < n; ++k) {
        if (k > 4) at = k & 1;
        stage[at] += a[row * n + k] * b[k * n + col];
    }
    sum = stage[0] + stage[1];
    c[row * n + col] = sum;
}
// expected: :9:.*out(?:side| of bounds)
