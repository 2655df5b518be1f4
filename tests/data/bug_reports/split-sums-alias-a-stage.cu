// sgl-project/sglang #37287: partial sums of a split along K lie in the memory of a stage of A; the
// barrier before they are stored is missing.
#define E 16
__global__ void split_in_a_block(const float *A, const float *B, float *C, int M, int N, int K) {
    extern __shared__ float memory[];
    const int x = threadIdx.x, y = threadIdx.y, part = threadIdx.z;
    float *a = memory + part * 2 * E * E, *b = a + E * E, *sums = memory;
    const int row = blockIdx.y * E + y, column = blockIdx.x * E + x;
    float sum = 0;
    for (int k = 0; k < K; k += 2 * E) {
        const int mine = k + part * E;
        a[y * E + x] = row < M && mine + x < K ? A[row * K + mine + x] : 0;
        b[y * E + x] = mine + y < K && column < N ? B[(mine + y) * N + column] : 0;
        __syncthreads();
        for (int i = 0; i < E; ++i) sum += a[y * E + i] * b[i * E + x];
        if (k + 2 * E < K) __syncthreads();  // twin: __syncthreads();
    }
    if (part) sums[y * E + x] = sum;
    __syncthreads();
    if (!part && row < M && column < N) C[row * N + column] = sum + sums[y * E + x];
}
void run(const float *A, const float *B, float *C, int M, int N, int K) {
    const dim3 grid((N + E - 1) / E, (M + E - 1) / E), block(E, E, 2);
    split_in_a_block<<<grid, block, 4 * E * E * sizeof(float)>>>(A, B, C, M, N, K);
}
// expected: :(15|18):.*races with
