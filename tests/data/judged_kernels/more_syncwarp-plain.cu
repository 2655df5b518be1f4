// One warp per block of 32 columns; only the warp is synchronised.
__global__ void one_warp(const float *a, const float *b, float *c, int n) {
    __shared__ float line[32];
    const int row = blockIdx.y, lane = threadIdx.x, col = blockIdx.x * 32 + lane;
    float s = 0;
    for (int k = 0; k < n; k += 32) {
        line[lane] = k + lane < n ? a[row * n + k + lane] : 0;
        __syncwarp();
        for (int i = 0; i < 32 && k + i < n; ++i) if (col < n) s += line[i] * b[(k + i) * n + col];
        __syncwarp();
    }
    if (col < n) c[row * n + col] = s;
}
void f(const float *a, const float *b, float *c, int n) { one_warp<<<dim3((n + 31) / 32, n), 32>>>(a, b, c, n); }
// expected: correct
