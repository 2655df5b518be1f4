// Warps compute elements of a row in turn; the blocks of a row are as many as the file says.
__global__ void multiply(float *C, const float *A, const float *B, int wA, int wB, int hA) {
    const int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= hA) return;
    for (int column = blockIdx.y; column < wB; column += gridDim.y) {
        float sum = 0;
        for (int k = threadIdx.x; k < wA; k += 32) sum += A[row * wA + k] * B[k * wB + column];
        for (int lanes = 16; lanes; lanes /= 2) sum += __shfl_down_sync(~0u, sum, lanes);
        if (threadIdx.x == 0) C[row * wB + column] = sum;
    }
}
void run(float *C, const float *A, const float *B, int wA, int wB, int hA) {
    multiply<<<dim3((hA + 7) / 8, 16), dim3(32, 8)>>>(C, A, B, wA, wB, hA);
}
// expected: correct
