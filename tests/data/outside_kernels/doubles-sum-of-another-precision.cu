// launch: doubles<<<dim3(CEIL_DIV(n, 16), CEIL_DIV(n, 16)), dim3(16, 16)>>>(a, b, c, n)
extern "C" __global__ void doubles(const double *__restrict__ a, const double *__restrict__ b,
                                   double *__restrict__ c, int n) {
    __shared__ double as[16][16];
    __shared__ double bs[16][16];
    const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    double sum = 0.0;
    for (int k0 = 0; k0 < n; k0 += 16) {
        const int ak = k0 + threadIdx.x, bk = k0 + threadIdx.y;
        as[threadIdx.y][threadIdx.x] = (row < n && ak < n) ? a[row * n + ak] : 0.0;
        bs[threadIdx.y][threadIdx.x] = (bk < n && column < n) ? b[bk * n + column] : 0.0;
        __syncthreads();
#pragma unroll 8
        for (int k = 0; k < 16; ++k) {
            sum = (float)fma(as[threadIdx.y][k], bs[k][threadIdx.x], sum);
        }
        __syncthreads();
    }
    if (row < n && column < n) c[row * n + column] = sum;
}
// expected: :(?:19): .*(?:elements wrong)
