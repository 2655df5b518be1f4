// AyakaGEMM/Hands-on-GEMM #8: loads are guarded, stores are not; those behind the end of a row fall
// into the next one.
__global__ void overlapping(float *a, float *b, float *c, int M, int N, int K) {
    const int row = blockIdx.y * 32 + threadIdx.y * 2, col = blockIdx.x * 32 + threadIdx.x * 2;
    float sum[2][2] = {};
    for (int k = 0; k < K; ++k)
        for (int i = 0; i < 2; ++i)
            for (int j = 0; j < 2; ++j)
                sum[i][j] += (row + i < M ? a[(row + i) * K + k] : 0) * (col + j < N ? b[k * N + col + j] : 0);
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j)
            if (row + i < M) c[(row + i) * N + col + j] = sum[i][j];  // twin: if (row + i < M && col + j < N) c[(row + i) * N + col + j] = sum[i][j];
}
// expected: :12:.*(races|out of bounds)
