"""The correctness check (gate): only cells with a correct product are timed."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kernels.products.matrices import Matrix, Reference

# Elements evaluated at a time: their float64 copies fit in the cache of a core.
_BAND_ELEMENTS = 1 << 17
_MOST_WORKERS = 8


@dataclass(frozen=True)
class Verdict:
    """The outcome of the check of one cell, with its worst element (row, column, error, bound).

    Row numbers continue through all products of a batch.
    """

    passed: bool
    reason: str | None
    worst_row: int
    worst_column: int
    worst_error: float
    worst_bound: float


class _Band(NamedTuple):
    """The outcome for some rows: failures, whether all are finite, and the worst element."""

    failures: int
    finite: bool
    share: float
    row: int
    column: int


def evaluate(
    product: Matrix, expected: Reference, bound: Reference, multiple: float = 1.0
) -> Verdict:
    """Compare a product with its float64 reference, element by element.

    All arrays are (batch, m, n). Every |product − expected| must be within `multiple` times `bound`
    (`kernels.products.matrices.reference`, `Cell.bound_multiple`). NaN and infinity fail, and so do
    unwritten elements, which are poison (NaN, or a wrong integer). The worst element is the first
    that is not finite, else that with the largest error over its bound.
    """
    columns = product.shape[-1]
    product, expected, bound = (m.reshape(-1, columns) for m in (product, expected, bound))
    height = max(1, _BAND_ELEMENTS // columns)
    starts = range(0, len(product), height)

    def evaluate_band(start: int) -> _Band:
        rows = slice(start, start + height)
        return _evaluate_band(product[rows], expected[rows], multiple * bound[rows], start)

    # numpy releases the interpreter lock, so threads run in parallel. More than a few of them only
    # wait for memory, and on a busy CPU the start of one takes longer than a band.
    workers = min(_MOST_WORKERS, len(starts), len(os.sched_getaffinity(0)))
    if len(starts) == 1:
        bands = [evaluate_band(0)]
    else:
        with ThreadPoolExecutor(workers) as pool:
            bands = list(pool.map(evaluate_band, starts))
    failures = sum(band.failures for band in bands)
    worst = max(bands, key=lambda band: (not band.finite, band.share))  # of equal ones, the first
    at = worst.row, worst.column
    error, allowed = float(abs(product[at] - expected[at])), float(multiple * bound[at])
    reason = None
    if failures:
        # Integers are printed in full, because numbers may differ only in their last digits.
        form = ".0f" if np.issubdtype(product.dtype, np.integer) else "g"
        reason = (
            f"{failures} of {product.size} elements wrong; worst C{at} = {product[at]:{form}}, "
            f"expected {expected[at]:{form}} ± {allowed:.2g}"
        )
    return Verdict(not failures, reason, *at, error, allowed)


def _evaluate_band(product: Matrix, expected: Reference, bound: Reference, start: int) -> _Band:
    """Evaluate some rows of a product; the first one is row `start`."""
    # With a bound of zero (a zero row or column), any error is infinitely large.
    with np.errstate(divide="ignore", invalid="ignore"):
        share = product - expected
        np.abs(share, out=share)
        np.divide(share, bound, out=share)
    worst = int(np.argmax(share))  # of NaN, the first
    finite, failures = True, 0
    if not share.flat[worst] <= 1:  # an error, or a bound of zero
        share[product == expected] = 0.0
        wrong = ~np.isfinite(product)
        share[wrong] = np.inf
        finite = not wrong.any()
        worst = int(np.argmax(share)) if finite else int(np.argmax(wrong))
        failures = int(np.count_nonzero(share > 1))
    row, column = divmod(worst, product.shape[1])
    return _Band(failures, finite, float(share[row, column]), start + row, column)
