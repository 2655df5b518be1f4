// launch: deep<<<dim3(CEIL_DIV(n, 64), CEIL_DIV(n, 64)), dim3(16, 16)>>>(A, B, C, n)
extern "C" __global__ void deep(const float *A, const float *B, float *C, int n) {
    __shared__ float As[64][64];
    __shared__ float Bs[64][64];
    const int tx = threadIdx.x, ty = threadIdx.y;
    float acc[4][4] = {};
    for (int k0 = 0; k0 < n; k0 += 64) {
#pragma unroll
        for (int i = ty; i < 64; i += 16) {
            for (int j = tx; j < 64; j += 16) {
                const int ar = blockIdx.y * 64 + i, bc = blockIdx.x * 64 + j;
                As[i][j] = ar < n && k0 + j < n ? A[ar * n + k0 + j] : 0.0f;
                Bs[i][j] = k0 + i < n && bc < n ? B[(k0 + i) * n + bc] : 0.0f;
            }
        }
        __syncthreads();
        for (int k = 0; k < 64; ++k) {
            float a[4], b[4];
            for (int i = 0; i < 4; ++i) a[i] = As[ty * 4 + i][k], b[i] = Bs[k][tx + 16 * i];
            for (int i = 0; i < 4; ++i) {
                acc[i][0] += a[i] * b[0], acc[i][1] += a[i] * b[1];
                acc[i][2] += a[i] * b[2], acc[i][3] += a[i] * b[3];
            }
        }
        if (k0 != 192) __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) {
            const int r = blockIdx.y * 64 + ty * 4 + i, c = blockIdx.x * 64 + tx + 16 * j;
            if (r < n && c < n) C[r * n + c] = acc[i][j];
        }
}
// expected: deep: .*elements wrong
