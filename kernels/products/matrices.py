"""Input matrices, and reference products with error bounds."""

from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import psutil

from base.errors import StudyError
from kernels.products.elements import ELEMENTS, exact
from kernels.products.shape import Shape

# An array (batch, rows, columns) of any element type.
Matrix = npt.NDArray[Any]
Reference = npt.NDArray[np.float64]
# A problem: the element type and the shape of a product.
Problem = tuple[str, Shape]

# Fills C before a kernel runs: NaN as float32 and, in two words, as float64.
POISON_WORD = 0x7FFFFFFF
# 1e9 as float32, to fill C for kernels that multiply C by zero.
FINITE_POISON_WORD = 0x4E6E6B28
# In float64, sums of this many products of two 16-bit numbers are exact.
_EXACT_SUMS = 1 << 20


class Inputs:
    """Seeded random A and B for all given problems.

    Floating-point elements are in [−1, 1); integers cover their full range. All matrices of a type
    are the first elements of one random vector. They therefore share one buffer, and a shape has
    the same matrices in every study with this seed.
    """

    def __init__(self, problems: Iterable[Problem], seed: int, spare_bytes: int = 0) -> None:
        """Make vectors, each `spare_bytes` longer; raise StudyError if memory is too small."""
        self._problems = list(problems)
        self.spare_bytes = spare_bytes
        check_memory(self._problems)
        with ThreadPoolExecutor() as pool:  # numpy releases the interpreter lock
            parts = [
                self._vectors(pool, f"{name}_elements", (seed, at)) for at, name in enumerate("ab")
            ]
            self.a, self.b = (
                {dtype: one.result() for dtype, one in part.items()} for part in parts
            )
        self.c_bytes = max(
            shape.c_elements * ELEMENTS[exact(dtype)].bytes for dtype, shape in self._problems
        )

    def _vectors(
        self, pool: ThreadPoolExecutor, elements: str, seed: tuple[int, int]
    ) -> dict[str, Future[Matrix]]:
        """Start to make for each element type a random vector as long as the largest matrix."""
        counts: dict[str, int] = {}
        for dtype, shape in self._problems:
            counts[dtype] = max(counts.get(dtype, 0), getattr(shape, elements))
        spare = {dtype: self.spare_bytes // ELEMENTS[dtype].bytes for dtype in counts}
        return {
            dtype: pool.submit(_random, dtype, count + spare[dtype], seed)
            for dtype, count in counts.items()
        }

    def rounded(self, dtype: str, shape: Shape, begins: Sequence[int]) -> tuple[Matrix, Matrix]:
        """Return A and B of `pair` after rounding, as numbers of their `exact` type."""
        a, b = self.pair(dtype, shape, begins)
        form = ELEMENTS[dtype].rounded
        if form is None:
            return a, b
        return form.decoded(a).astype(np.float32), form.decoded(b).astype(np.float32)

    def pair(
        self, dtype: str, shape: Shape, begins: Sequence[int] = (0, 0)
    ) -> tuple[Matrix, Matrix]:
        """Return A and B (`pair_of`) in these vectors; they begin at most the spare bytes later."""
        return pair_of(self.a[dtype], self.b[dtype], shape, begins)


def memory_needed(problems: Iterable[Problem]) -> int:
    """Return the bytes that a recording needs: for inputs, C, and the largest reference.

    There are `Inputs` in two processes, and buffers of the same size.
    """
    vectors: dict[tuple[str, str], int] = {}
    reference_bytes = 0
    for dtype, shape in problems:
        edges = {"a": shape.a_elements, "b": shape.b_elements, "c": shape.c_elements}
        for name, elements in edges.items():
            size = elements * ELEMENTS[exact(dtype)].bytes
            vectors[name, dtype] = max(vectors.get((name, dtype), 0), size)
        # A reference needs, in float64, A, B, their absolute values, and both products.
        reference_bytes = max(reference_bytes, 16 * sum(edges.values()))
    return 3 * sum(vectors.values()) + reference_bytes


def check_memory(problems: Iterable[Problem]) -> None:
    """Raise StudyError if this host has too little free memory for these matrices."""
    problems = list(problems)
    needed, available = memory_needed(problems), psutil.virtual_memory().available
    if needed > available:
        largest = max((shape for _, shape in problems), key=lambda shape: shape.flop)
        raise StudyError(
            f"products up to size {largest}: need {needed / 2**30:.1f} GiB of host memory, "
            f"{available / 2**30:.1f} GiB are free; use smaller sizes"
        )


def _random(dtype: str, count: int, seed: tuple[int, int]) -> Matrix:
    if rounded := ELEMENTS[dtype].rounded:
        return rounded.encoded(_random(exact(dtype), count, seed))
    rng = np.random.default_rng(seed)
    if dtype == "int32":
        return rng.integers(-(2**31), 2**31, count, dtype=np.int32)
    numbers: Matrix = rng.random(count, dtype=ELEMENTS[dtype].dtype)  # type: ignore[arg-type]
    numbers *= 2
    numbers -= 1
    return numbers


def matrices(flat: Matrix, batch: int, rows: int, columns: int) -> Matrix:
    """Return a view (batch, rows, columns) of the first elements of a flat array."""
    return flat[: batch * rows * columns].reshape(batch, rows, columns)


def pair_of(a: Matrix, b: Matrix, shape: Shape, begins: Sequence[int]) -> tuple[Matrix, Matrix]:
    """Return views of A and B, shapes (batch, m, k) and (batch, k, n), in two flat arrays.

    `begins` are the bytes before A and before B.
    """
    first, second = begins[0] // a.itemsize, begins[1] // b.itemsize
    return (
        matrices(a[first:], shape.batch, shape.m, shape.k),
        matrices(b[second:], shape.batch, shape.k, shape.n),
    )


def reference(a: Matrix, b: Matrix) -> tuple[Reference, Reference]:
    """Return A·B and the bound on the error of a computed product, both (batch, m, n) in float64.

    For float32 the bound is γ·(|A|·|B|) with γ = k·u/(1 − k·u), componentwise (Higham, Accuracy and
    Stability of Numerical Algorithms, 2nd ed., section 3.5). It is valid for every order of
    summation, with and without FMA. For float64 it is doubled, because the reference is computed in
    float64 too. Integers wrap around at 32 bits and allow no error.
    """
    if a.dtype == np.int32:
        product = _wrapped(a, b)
        return product, np.zeros_like(product)
    k = a.shape[-1]
    # The unit roundoff: half the distance from 1 to the next larger number.
    roundoff = k * float(np.finfo(a.dtype).eps) / 2
    gamma = roundoff / (1 - roundoff) * (1 if a.dtype == np.float32 else 2)
    a64, b64 = a.astype(np.float64), b.astype(np.float64)
    return a64 @ b64, gamma * (np.abs(a64) @ np.abs(b64))


def reference_within(
    a: Reference, b: Reference, operands: float, sums: float, result: float
) -> tuple[Reference, Reference]:
    """Return A·B and the bound on the error of a computed product, both (batch, m, n).

    `operands`, `sums` and `result` are unit roundoffs: of rounding the operands before the product,
    of the sums, and of the stored result; 0 means exact. The bound is (γ + 2u + u²)·(|A|·|B|) for
    sums and operands, plus the roundoff of the result, whose magnitude is bounded likewise. γ = k·u
    holds for every order of summation and for each k (Jeannerod and Rump, SIAM J. Matrix Anal.
    Appl. 34, 2013). Products of two numbers with 11 digits, or of a product and a sum in one FMA,
    are exact in float; otherwise each product is rounded, which the factor k includes.
    """
    product, magnitude = a @ b, np.abs(a) @ np.abs(b)
    relative = a.shape[-1] * sums / (1 - sums) + 2 * operands + operands**2
    bound = relative * magnitude
    return product, bound + result * (np.abs(product) + bound)


def _wrapped(a: Matrix, b: Matrix) -> Reference:
    """Return the product of int32 matrices modulo 2³², as numbers from −2³¹ to 2³¹ − 1.

    It is computed in float64 from 16-bit halves, whose sums are exact.
    """
    total = np.zeros((*a.shape[:2], b.shape[2]), np.int64)
    for start in range(0, a.shape[2], _EXACT_SUMS):
        part = slice(start, start + _EXACT_SUMS)
        a_high, a_low = _halves(a[:, :, part])
        b_high, b_low = _halves(b[:, part])
        middle = (a_high @ b_low + a_low @ b_high).astype(np.int64)
        total += (a_low @ b_low).astype(np.int64) + (middle << 16)
        total &= 0xFFFFFFFF
    return total.astype(np.uint32).view(np.int32).astype(np.float64)


def _halves(matrix: Matrix) -> tuple[Reference, Reference]:
    """Return the two 16-bit halves of int32 numbers: high·2¹⁶ + low, with low ≥ 0."""
    return (matrix >> 16).astype(np.float64), (matrix & 0xFFFF).astype(np.float64)
