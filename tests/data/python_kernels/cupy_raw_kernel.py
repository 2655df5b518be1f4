"""A RawKernel of CuPy, with a thread per element."""

import cupy

SOURCE = r"""
extern "C" __global__ void product(const float *a, const float *b, float *c, int m, int n, int k) {
    const int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 8 + threadIdx.y;
    if (row >= m || column >= n) return;
    float sum = 0;
    for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + column];
    c[row * n + column] = sum;
}
"""
kernel = cupy.RawKernel(SOURCE, "product")


def multiply(a, b, c, stream):
    with cupy.cuda.ExternalStream(stream):
        left, right, product = (cupy.asarray(matrix) for matrix in (a, b, c))
        (m, k), n = left.shape, right.shape[1]
        sizes = (cupy.int32(m), cupy.int32(n), cupy.int32(k))
        grid = (-(-n // 32), -(-m // 8))
        kernel(grid, (32, 8), (left, right, product, *sizes))


# expected: correct
