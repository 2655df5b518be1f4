"""The correctness gate: no cell is timed whose product is wrong."""

from dataclasses import dataclass

import numpy as np

from measurement.matrices import Matrix, Reference


@dataclass(frozen=True)
class Verdict:
    """Outcome of the gate for one cell, with its worst element (row, column, error, bound)."""

    passed: bool
    reason: str | None
    worst_row: int
    worst_column: int
    worst_error: float
    worst_bound: float


def judge(product: Matrix, expected: Reference, bound: Reference) -> Verdict:
    """Hold a float32 product against its float64 reference, element by element.

    All arrays are (n, n). Every |product − expected| must be within `bound`
    (`measurement.matrices.reference`); NaN, infinity and elements that nobody wrote (NaN by the
    poison) fail. The worst element is the first that is not finite, else the one whose error is the
    largest multiple of its bound.
    """
    error = np.abs(product - expected)
    wrong = ~np.isfinite(product)
    # A bound of zero (a zero row or column) allows no error at all: any is infinitely too much.
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(error == 0, 0.0, error / bound)
    share[wrong] = np.inf
    worst = int(np.argmax(wrong)) if wrong.any() else int(np.argmax(share))
    row, column = divmod(worst, product.shape[1])
    failures = int(np.count_nonzero(share > 1))
    reason = None
    if failures:
        reason = (
            f"{failures} of {product.size} elements wrong; worst C({row}, {column}) = "
            f"{product[row, column]:g}, expected {expected[row, column]:g} "
            f"± {bound[row, column]:.2g}"
        )
    return Verdict(
        not failures,
        reason,
        row,
        column,
        float(error[row, column]),
        float(bound[row, column]),
    )
