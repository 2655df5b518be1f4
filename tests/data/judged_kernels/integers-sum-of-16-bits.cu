#include <cstdint>
__global__ void igemm(const int8_t *a, const int8_t *b, int32_t *c, int m, int n, int k) {
    int i = blockIdx.y * 8 + threadIdx.y, j = blockIdx.x * 32 + threadIdx.x;
    if (i < m && j < n) {
        int16_t sum = 0;
        for (int p = 0; p < k; p++) sum += (int32_t)a[i * k + p] * b[p * n + j];
        c[i * n + j] = sum;
    }
}
// launch: igemm<<<dim3(CEIL_DIV(N, 32), CEIL_DIV(M, 8)), dim3(32, 8)>>>(a, b, c, m, n, k)
// expected: elements wrong
