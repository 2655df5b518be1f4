__global__ void tiles(const float *A, const float *B, float *C, int m, int n, int k) {
    const int y = threadIdx.y, x = threadIdx.x, top = blockIdx.y * 16, left = blockIdx.x * 32;
    if (top + y >= m || left + x >= n) return;
    C += top * k + left;  // twin: C += top * n + left;
    float sum = 0;
    for (int i = 0; i < k; ++i) sum += A[(top + y) * k + i] * B[i * n + left + x];
    C[y * n + x] = sum;
}
// expected: out of bounds|races|does not store|elements wrong
