"""A kernel by Numba, launched by a function that stores C."""

from numba import cuda


@cuda.jit
def one_element(a, b, c):
    row, column = cuda.grid(2)
    if row < c.shape[0] and column < c.shape[1]:
        total = 0.0
        for step in range(a.shape[1]):
            total += a[row, step] * b[step, column]
        c[row, column] = total


def multiply(a, b, out):
    grid = (-(-a.shape[0] // 8), -(-b.shape[1] // 32))
    one_element[grid, (8, 32)](a, b, out)


# expected: correct
