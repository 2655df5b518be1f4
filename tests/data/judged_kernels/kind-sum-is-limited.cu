#include <cstdint>
// Quantised layers: int8 activations times int8 weights, both with K along rows.
__global__ void linear_s8(const int8_t *x, const int8_t *w, int *y, int m, int n, int k) {
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    const int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= m || col >= n) return;
    int sum = 0;
    int i = 0;
    if (k % 4 == 0)
        for (; i < k; i += 4)
            sum = __dp4a(*(const int *)(x + row * k + i), *(const int *)(w + col * k + i), sum);
    for (; i < k; ++i) sum += x[row * k + i] * w[col * k + i];
    y[row * n + col] = min(max(sum, -(1 << 20)), 1 << 20);  // twin: y[row * n + col] = sum;
}
// launch: linear_s8<<<dim3(CEIL_DIV(n, 16), CEIL_DIV(m, 16)), dim3(16, 16)>>>(x, w, y, m, n, k)
// expected: elements wrong
