// Four elements per thread, a block apart in both directions.
#define BS 16
__global__ void coarse4(const float *A, const float *B, float *C, int M, int N, int K) {
    __shared__ float sa[2 * BS][BS], sb[BS][2 * BS];
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * 2 * BS + y, col = blockIdx.x * 2 * BS + x;
    float c00 = 0, c01 = 0, c10 = 0, c11 = 0;
    for (int t = 0; t < K; t += BS) {
        sa[y][x] = (row < M && t + x < K) ? A[row * K + t + x] : 0.f;
        sa[y + BS][x] = (row + BS < M && t + x < K) ? A[(row + BS) * K + t + x] : 0.f;
        sb[y][x] = (t + y < K && col < N) ? B[(t + y) * N + col] : 0.f;
        sb[y][x + BS] = (t + y < K && col + BS < N) ? B[(t + y) * N + col + BS] : 0.f;
        __syncthreads();
        for (int k = 0; k < BS; k++) {
            float a0 = sa[y][k], a1 = sa[y + BS][k], b0 = sb[k][x], b1 = sb[k][x + BS];
            c00 += a0 * b0; c01 += a0 * b1; c10 += a1 * b0; c11 += a1 * b1;
        }
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = c00;
    if (row < M && col + BS < N) C[row * N + col + BS] = c01;
    if (row + BS < M && row < N && col < N) C[(row + BS) * N + col] = c10;  // twin: if (row + BS < M && col < N) C[(row + BS) * N + col] = c10;
    if (row + BS < M && col + BS < N) C[(row + BS) * N + col + BS] = c11;
}
void run(const float *A, const float *B, float *C, int M, int N, int K) {
    dim3 threads(BS, BS), grid((N + 2 * BS - 1) / (2 * BS), (M + 2 * BS - 1) / (2 * BS));
    coarse4<<<grid, threads>>>(A, B, C, M, N, K);
}
// expected: does not store C
