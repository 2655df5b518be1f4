// The matrices have names of sizes, as in a textbook, and nothing launches the kernel.
__global__ void multiply(float *M, float *N, float *P, int Width) {
    const int Row = blockIdx.y * blockDim.y + threadIdx.y, Col = blockIdx.x * blockDim.x + threadIdx.x;
    if (Row >= Width || Col >= Width) return;
    float sum = 0;
    for (int k = 0; k < Width; ++k) sum += M[Row * Width + k] * N[k * Width + Col];
    P[Row * Width + Col] = sum;
}
// expected: correct
