"""Two kernels by Numba as a course shows them: the host's code is in main."""

import numpy as np
from numba import cuda, float32

TPB = 16


@cuda.jit
def fast_matmul(A, B, C):
    a_tile = cuda.shared.array(shape=(TPB, TPB), dtype=float32)
    b_tile = cuda.shared.array(shape=(TPB, TPB), dtype=float32)
    i, j = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0.0)
    for step in range((A.shape[1] + TPB - 1) // TPB):
        a_tile[tx, ty] = 0
        b_tile[tx, ty] = 0
        if i < A.shape[0] and ty + step * TPB < A.shape[1]:
            a_tile[tx, ty] = A[i, ty + step * TPB]
        if j < B.shape[1] and tx + step * TPB < B.shape[0]:
            b_tile[tx, ty] = B[tx + step * TPB, j]
        cuda.syncthreads()
        for inner in range(TPB):
            total += a_tile[tx, inner] * b_tile[inner, ty]
        cuda.syncthreads()
    if i < C.shape[0] and j < C.shape[1]:
        C[i, j] = total


def main():
    a = np.random.rand(64, 64).astype(np.float32)
    device_a, device_c = cuda.to_device(a), cuda.device_array_like(a)
    threadsperblock = (TPB, TPB)
    blockspergrid = (-(-64 // TPB), -(-64 // TPB))
    fast_matmul[blockspergrid, threadsperblock](device_a, device_a, device_c)
    np.testing.assert_allclose(device_c.copy_to_host(), a @ a, rtol=1e-4)


if __name__ == "__main__":
    main()

# expected: correct
