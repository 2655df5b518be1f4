"""A kernel by Numba that leaves out the last row, launched by a function with copies."""

import numpy as np
from numba import cuda


@cuda.jit
def matmul_kernel(a, b, c, n):
    column, row = cuda.grid(2)
    if row < c.shape[0] - 1 and column < n:
        total = 0.0
        for step in range(a.shape[1]):
            total += a[row, step] * b[step, column]
        c[row, column] = total


def matmul(a, b):
    device_a, device_b = cuda.to_device(a), cuda.to_device(b)
    device_c = cuda.to_device(np.zeros((a.shape[0], b.shape[1]), dtype=np.float32))
    grid = (-(-b.shape[1] // 32), -(-a.shape[0] // 8))
    matmul_kernel[grid, (32, 8)](device_a, device_b, device_c, b.shape[1])
    return device_c.copy_to_host()


# expected: elements wrong
