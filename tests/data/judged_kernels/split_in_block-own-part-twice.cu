// Four groups of threads take a quarter of K each; their sums are added in shared memory.
#define G 4
#define E 8
__global__ void quarters(const float *A, const float *B, float *C, int N) {
    __shared__ float part[G][E][E];
    const int x = threadIdx.x, y = threadIdx.y, g = threadIdx.z;
    const int row = blockIdx.y * E + y, col = blockIdx.x * E + x;
    float sum = 0;
    if (row < N && col < N)
        for (int k = g; k < N; k += G) sum += A[row * N + k] * B[k * N + col];
    part[g][y][x] = sum;
    __syncthreads();
    if (g == 0 && row < N && col < N) {
        for (int i = 0; i < G; ++i) sum += part[i][y][x];
        C[row * N + col] = sum;
    }
}
void go(const float *A, const float *B, float *C, int N) {
    dim3 t(E, E, G), g((N + E - 1) / E, (N + E - 1) / E);
    quarters<<<g, t>>>(A, B, C, N);
}
// expected: elements wrong
