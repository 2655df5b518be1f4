// Every block clears its own tile, then its threads add to it in turn.
__global__ void adds(const float *a, const float *b, float *c, int n) {
    const int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    const bool inside = row < n && col < n;
    if (inside && threadIdx.z == 0) c[row * n + col] = 0;
    __syncthreads();
    float s = 0;
    if (inside) {
        for (int k = threadIdx.z; k < n; k += blockDim.z) s += a[row * n + k] * b[k * n + col];
        atomicAdd(&c[row * n + col], s);
    }
}
// launch: adds<<<dim3(CEIL_DIV(N, 16), CEIL_DIV(N, 16)), dim3(16, 16, 2)>>>(a, b, c, n)
// expected: correct
