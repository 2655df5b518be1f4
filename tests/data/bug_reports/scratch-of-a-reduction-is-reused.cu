// NVIDIA/cuml #6578: thread 0 adds up partial sums while other threads store those of the next
// element.
__global__ void by_dot_products(const float *a, const float *b, float *c, int n) {
    __shared__ float part[64];
    const int row = blockIdx.x;
    for (int column = 0; column < n; ++column) {
        float sum = 0;
        for (int k = threadIdx.x; k < n; k += 64) sum += a[row * n + k] * b[k * n + column];
        part[threadIdx.x] = sum;
        __syncthreads();
        if (threadIdx.x == 0) {
            float total = 0;
            for (int i = 0; i < 64; ++i) total += part[i];
            c[row * n + column] = total;
        }
        // twin: __syncthreads();
    }
}
void run(const float *a, const float *b, float *c, int n) { by_dot_products<<<n, 64>>>(a, b, c, n); }
// expected: :(9|13):.*races with
