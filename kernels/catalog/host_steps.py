"""What the host does with the matrices before and after a kernel, in addition to copies.

This work is part of the end-to-end time, and is also timed separately (`host_s`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from kernels.products.shape import Shape

Array = npt.NDArray[Any]
# Edge of the parts in which a matrix is transposed.
_PART = 64
# A function that fills its second argument from its first; both are (batch, rows, columns).
Fill = Callable[[Array, Array], None]


@dataclass(frozen=True)
class HostStep:
    """How the host prepares a kernel's operands, and extracts the product.

    `operands(shape, block_size)` is the shape that the kernel multiplies. `a` and `b` fill the
    matrices copied to the device from A and B; `c` fills C from the matrix copied back. If a
    function is None, the matrix itself is copied.
    """

    name: str
    operands: Callable[[Shape, Any], Shape]
    a: Fill | None = None
    b: Fill | None = None
    c: Fill | None = None


def _transpose(matrix: Array, target: Array) -> None:
    """Transpose a matrix in parts so small that source and target fit in the cache together."""
    source = matrix.transpose(0, 2, 1)
    _, rows, columns = target.shape
    for row, column in product(range(0, rows, _PART), range(0, columns, _PART)):
        part = np.s_[:, row : row + _PART, column : column + _PART]
        target[part] = source[part]


def _pad(matrix: Array, target: Array) -> None:
    _, rows, columns = matrix.shape
    target[:, rows:, :] = 0
    target[:, :rows, columns:] = 0
    target[:, :rows, :columns] = matrix


def _crop(matrix: Array, target: Array) -> None:
    _, rows, columns = target.shape
    np.copyto(target, matrix[:, :rows, :columns])


def _padded(shape: Shape, block_size: int) -> Shape:
    """Return the shape with edges rounded up to multiples of the block size."""
    m, n, k = (-(-edge // block_size) * block_size for edge in (shape.m, shape.n, shape.k))
    return Shape(shape.batch, m, n, k)


def _unchanged(shape: Shape, _block_size: int) -> Shape:
    return shape


# Step 4 of source T. Matrices are square, so the transposed copy has the shape of B.
TRANSPOSED_B = HostStep("B transposed", _unchanged, b=_transpose)
# For user-supplied kernels, by whether they read A and B column-major.
TRANSPOSED = {
    (True, False): HostStep("A transposed", _unchanged, a=_transpose),
    (False, True): TRANSPOSED_B,
    (True, True): HostStep("A and B transposed", _unchanged, a=_transpose, b=_transpose),
}
# Padding, as in source H.
PADDED = HostStep("A and B padded with zeros", _padded, a=_pad, b=_pad, c=_crop)
