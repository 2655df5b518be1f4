// csarofeen/pytorch #380: tiles in shared memory are filled again without a barrier at the end of
// the loop.
struct Tile { float value[16][17]; };
__global__ void tiles(float *C, const float *A, const float *B, int N) {
    __shared__ Tile left, right;
    const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (int begin = 0; begin < N; begin += 16) {
        const int k = begin + threadIdx.x, l = begin + threadIdx.y;
        left.value[threadIdx.y][threadIdx.x] = row < N && k < N ? A[row * N + k] : 0;
        right.value[threadIdx.y][threadIdx.x] = l < N && column < N ? B[l * N + column] : 0;
        __syncthreads();
        for (int i = 0; i < 16; ++i) sum += left.value[threadIdx.y][i] * right.value[i][threadIdx.x];
        // twin: __syncthreads();
    }
    if (row < N && column < N) C[row * N + column] = sum;
}
// expected: :(10|11|13):.*races with
