"""The matrices that are multiplied, and the reference that products are held against."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float32]
Reference = npt.NDArray[np.float64]

# Unit roundoff of float32: half the distance from 1 to the next number.
UNIT_ROUNDOFF = 2.0**-24


class Inputs:
    """Seeded random A and B with elements in [−1, 1), for every order up to the largest.

    The matrix of order n is the first n² elements of one random vector, so that one buffer of the
    largest order serves them all, and each order has the same matrices in every study of one seed.
    """

    def __init__(self, orders: Iterable[int], seed: int) -> None:
        self.max_order = max(orders)
        self.a = _random(self.max_order**2, (seed, 0))
        self.b = _random(self.max_order**2, (seed, 1))

    def pair(self, n: int) -> tuple[Matrix, Matrix]:
        """Return A and B of order n, shape (n, n), as views."""
        return square(self.a, n), square(self.b, n)


def _random(count: int, seed: tuple[int, int]) -> Matrix:
    return np.random.default_rng(seed).random(count, dtype=np.float32) * 2 - 1


def square(flat: Matrix, n: int) -> Matrix:
    """Return the first n² elements of a flat array as an (n, n) view."""
    return flat[: n * n].reshape(n, n)


def reference(a: Matrix, b: Matrix) -> tuple[Reference, Reference]:
    """Return A·B in float64 and the bound on the error of a float32 product, both (n, n).

    The bound is γ·(|A|·|B|) with γ = n·u/(1 − n·u), componentwise (Higham, Accuracy and Stability
    of Numerical Algorithms, 2nd ed., section 3.5). It holds for every order of summation, with and
    without fused multiply-add.
    """
    n = a.shape[0]
    gamma = n * UNIT_ROUNDOFF / (1 - n * UNIT_ROUNDOFF)
    a64, b64 = a.astype(np.float64), b.astype(np.float64)
    return a64 @ b64, gamma * (np.abs(a64) @ np.abs(b64))
