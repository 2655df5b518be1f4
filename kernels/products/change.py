"""Secret changes of the inputs between runs, and the check of a product from its changed inputs.

A kernel that stored results, or skips work after the gate, would return a product of other inputs.
Therefore every timed run has other inputs: A and B begin at another place in their random vectors.
In a checked run some rows of A are also almost zero. Their error bound is the bound of `TERMS`
products, so TF32, BF16 and FP16 exceed it at every size. The kernel sees equal addresses and
shapes.
"""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from kernels.products.gate import Verdict, evaluate
from kernels.products.matrices import Inputs, Matrix, Reference, reference
from kernels.products.shape import Shape

# Matrices begin at a multiple of a page, so copies and vector loads stay aligned.
PAGE_BYTES = 4096
_PAGES = 240
# Launches that are timed together begin this much later each, in the device's buffers.
STEP_BYTES, MOST_LAUNCHES = 256, 100
SPARE_BYTES = _PAGES * PAGE_BYTES + -(-STEP_BYTES * MOST_LAUNCHES // PAGE_BYTES) * PAGE_BYTES
TERMS = 32  # nonzero elements of a thin row
_THIN_ROWS, _ROWS = 4, 12
_SMALL = 2**14  # elements of C: all rows are checked
_FEW = 2**16  # elements of B: all columns are checked
_BLOCKS, _BLOCK_COLUMNS = 8, 8
_SUSPECTS = 4  # elements of the suspicious row
# Root mean square error of float32 sums over that of the elements, at most. In the order of k it is
# 2⁻²⁰ at k = 4096 and grows with √k; with one factor of TF32 it is 2⁻¹³ at every k. Kernels that
# round more often may exceed it, but those that round less often have no lower limit.
_IMPRECISE = 2.0**-15


@dataclass(frozen=True)
class Change:
    """Where A and B begin, in pages; `kept` are the nonzero columns of the `thin` rows of A.

    Rows are numbered through all products of a batch. `drawn`: the second check drew the change and
    poisons C before the run. `checked`: the product will be checked.
    """

    a_page: int = 0
    b_page: int = 0
    thin: tuple[int, ...] = ()
    kept: tuple[int, ...] = ()
    drawn: bool = False
    checked: bool = False

    @property
    def begins(self) -> tuple[int, int]:
        """Bytes before A and before B in their vectors."""
        return self.a_page * PAGE_BYTES, self.b_page * PAGE_BYTES


SAME = Change()  # no change of the inputs


def draw(rng: np.random.Generator, dtype: str, shape: Shape, moves: bool, checked: bool) -> Change:
    """Return a random change; `moves`: A and B may begin elsewhere."""
    pages = rng.integers(0, _PAGES, 2) if moves else (0, 0)
    change = Change(int(pages[0]), int(pages[1]), drawn=True, checked=checked)
    if not checked or dtype != "float32" or shape.k <= TERMS:
        return change
    rows = rng.permutation(shape.batch * shape.m)[:_THIN_ROWS]
    kept = np.sort(rng.permutation(shape.k)[:TERMS])
    return replace(change, thin=tuple(map(int, rows)), kept=tuple(map(int, kept)))


@contextmanager
def thinned(a: Matrix, change: Change) -> Iterator[None]:
    """Make the thin rows of A, (batch, m, k), almost zero while the block runs."""
    rows = a.reshape(-1, a.shape[-1])
    before = [rows[row].copy() for row in change.thin]
    kept = list(change.kept)
    for row, row_before in zip(change.thin, before, strict=True):
        rows[row] = 0
        rows[row, kept] = row_before[kept]
    try:
        yield
    finally:
        for row, row_before in zip(change.thin, before, strict=True):
            rows[row] = row_before


def rows_to_check(rng: np.random.Generator, shape: Shape, change: Change) -> tuple[int, ...]:
    """Return the thin rows and random rows, numbered through the batch: all of a small product."""
    random = rng.permutation(shape.batch * shape.m)[: max(_ROWS, _SMALL // shape.n)]
    return tuple(dict.fromkeys([*change.thin, *map(int, random)]))


def checks_all(shape: Shape, rows: Sequence[int]) -> bool:
    """Return whether `check` compares each element of a product if it gets these rows."""
    return len(rows) == shape.batch * shape.m and not _has_blocks(shape)


def _has_blocks(shape: Shape) -> bool:
    return shape.k * shape.n > _FEW and shape.n > _BLOCKS * _BLOCK_COLUMNS


def random_vector(rng: np.random.Generator, dtype: str, n: int) -> Matrix:
    """Return a random vector for `project`: numbers in (−1, 1), or integers."""
    if dtype == "int32":
        return rng.integers(-(2**31), 2**31, n, dtype=np.int32)
    return rng.uniform(-1, 1, n).astype(dtype)


def project(c: Matrix, vector: Matrix) -> Matrix:
    """Return the product of each row of C, (batch, m, n), with a vector: (batch, m)."""
    with np.errstate(invalid="ignore", over="ignore"):  # a wrong C
        product: Matrix = c @ vector
    return product


def suspicious(a: Matrix, b: Matrix, vector: Matrix, projected: Matrix, change: Change) -> int:
    """Return the row of C whose projection differs most from A·(B·vector), or is not finite.

    Rows are numbered through the batch. Thin rows are excluded: `check` compares them completely.
    """
    expected = (a @ (b @ vector)[:, :, None])[:, :, 0]
    with np.errstate(invalid="ignore", over="ignore"):
        distance = np.abs((projected - expected).astype(np.float64)).reshape(-1)
    distance[list(change.thin)] = -1
    return _largest(distance, 1)[0]


def _largest(distance: Reference, count: int) -> list[int]:
    """Return the places of the largest numbers; those that are not finite come first."""
    return list(map(int, np.argsort(-np.nan_to_num(distance, nan=np.inf), kind="stable")[:count]))


def check(
    rng: np.random.Generator,
    inputs: Inputs,
    dtype: str,
    shape: Shape,
    change: Change,
    rows: Sequence[int],
    product: Matrix,
    multiples: tuple[float, float],
    later: int = 0,
    suspect: int | None = None,
) -> Verdict | None:
    """Check the rows of a product; return the first verdict that failed, or None.

    `product` is (rows, n). A and B begin `later` bytes after the place in the change. `multiples`
    of the error bound are allowed with k and with `TERMS` products per element. In large products a
    random part of the columns is checked, in thin rows all of them. Of the row `suspect`, the
    elements that differ most from a product without float64 are checked too.
    """
    a, b = inputs.pair(dtype, shape, [begin + later for begin in change.begins])
    kept, n = list(change.kept), shape.n
    if suspect is not None:
        number, row = divmod(suspect, shape.m)
        left, values = a[number][[row]], product[[rows.index(suspect)]]
        with np.errstate(invalid="ignore", over="ignore"):
            distance = np.abs((values - left @ b[number]).astype(np.float64))[0]
        columns = _largest(distance, _SUSPECTS)
        verdict = _evaluate(values[:, columns], left, b[number][:, columns], multiples[False])
        if not verdict.passed:
            return verdict
    blocks = [slice(0, n)]
    if _has_blocks(shape):
        begins = map(int, rng.integers(0, n - _BLOCK_COLUMNS, _BLOCKS))
        blocks = [slice(begin, begin + _BLOCK_COLUMNS) for begin in begins]
    for number in sorted({row // shape.m for row in rows}):
        placed = [(at, row % shape.m) for at, row in enumerate(rows) if row // shape.m == number]
        for is_thin in (True, False):
            part = [(at, row) for at, row in placed if (rows[at] in change.thin) == is_thin]
            if not part:
                continue
            left, values = a[number][[row for _, row in part]], product[[at for at, _ in part]]
            if is_thin:
                left, right = left[:, kept], b[number][kept]
            else:
                right = np.concatenate([b[number][:, columns] for columns in blocks], axis=1)
                values = np.concatenate([values[:, columns] for columns in blocks], axis=1)
            verdict = _evaluate(values, left, right, multiples[is_thin])
            if not verdict.passed:
                return verdict
    return None


def digest(a: Matrix, b: Matrix, a_rows: Sequence[int], b_rows: Sequence[int]) -> str:
    """Return a hash of these rows of A and B, numbered through the batch."""
    hashed = hashlib.blake2b(digest_size=16)
    for matrix, rows in ((a, a_rows), (b, b_rows)):
        flat = matrix.reshape(-1, matrix.shape[-1])
        for row in rows:
            hashed.update(flat[row].tobytes())
    return hashed.hexdigest()


def _evaluate(values: Matrix, left: Matrix, right: Matrix, multiple: float) -> Verdict:
    expected, bound = reference(left[None], right[None])
    verdict = evaluate(values[None], expected, bound, multiple)
    if not verdict.passed or values.dtype != np.float32:
        return verdict
    error = np.sqrt(np.square(values - expected).mean())
    squares = (np.square(factor, dtype=np.float64).mean() for factor in (left, right))
    share = error / np.sqrt(left.shape[-1] * np.prod(list(squares)))
    limit = max(multiple, 1.0) * _IMPRECISE
    if share <= limit:
        return verdict
    reason = f"errors are {share:.2g} of the elements; float32 allows {limit:.2g}"
    return replace(verdict, passed=False, reason=reason)
