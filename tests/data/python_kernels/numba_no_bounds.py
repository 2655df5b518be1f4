"""A kernel by Numba that leaves out the last row."""

from numba import cuda


@cuda.jit
def product(a, b, c):
    column, row = cuda.grid(2)
    if row < c.shape[0] - 1 and column < c.shape[1]:
        total = 0.0
        for step in range(a.shape[1]):
            total += a[row, step] * b[step, column]
        c[row, column] = total


def multiply(a, b, c, stream):
    left, right, result = (cuda.as_cuda_array(matrix) for matrix in (a, b, c))
    grid = (-(-c.shape[1] // 32), -(-c.shape[0] // 8))
    product[grid, (32, 8), cuda.external_stream(stream)](left, right, result)


# expected: elements wrong
