"""A RawKernel of CuPy, with a thread per element, and a function that launches it."""

import cupy as cp
import numpy as np

matmul_kernel = cp.RawKernel(
    r"""
extern "C" __global__ void matmul(const float *A, const float *B, float *C, int M, int N, int K) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= M || column >= N) return;
    float sum = 0;
    for (int i = 0; i < K; ++i) sum += A[row * K + i] * B[i * N + column];
    C[row * N + column] = sum;
}
""",
    "matmul",
)
BLOCK = (32, 8)


def matmul_gpu(A, B):
    M, K = A.shape
    N = B.shape[1]
    C = cp.zeros((M, N), dtype=cp.float32)
    grid = ((N + BLOCK[0] - 1) // BLOCK[0], (M + BLOCK[1] - 1) // BLOCK[1])
    matmul_kernel(grid, BLOCK, (A, B, C, np.int32(M), np.int32(N), np.int32(K)))
    return C


def test_small():
    a, b = cp.random.rand(4, 5, dtype=cp.float32), cp.random.rand(5, 6, dtype=cp.float32)
    cp.testing.assert_allclose(matmul_gpu(a, b), a @ b, rtol=1e-5)


# expected: correct
