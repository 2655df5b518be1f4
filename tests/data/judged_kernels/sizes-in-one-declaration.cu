// M, N and K are constants of the file, in one declaration with the edge of a block.
constexpr int M = 512, N = 256, K = 128, EDGE = 16;
__global__ void multiply(const float *a, const float *b, float *c) {
    const int row = blockIdx.y * EDGE + threadIdx.y, column = blockIdx.x * EDGE + threadIdx.x;
    if (row >= M || column >= N) return;
    float sum = 0;
    for (int i = 0; i < K; ++i) sum += a[row * N + i] * b[i * N + column]; // twin:     for (int i = 0; i < K; ++i) sum += a[row * K + i] * b[i * N + column];
    c[row * N + column] = sum;
}
int main() {
    float *a, *b, *c;
    multiply<<<dim3((N + EDGE - 1) / EDGE, (M + EDGE - 1) / EDGE), dim3(EDGE, EDGE)>>>(a, b, c);
}
// expected: mine.cu:8: multiply, thread
