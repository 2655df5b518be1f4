"""Distribution-free confidence intervals of a median."""

from functools import cache
from math import comb

import numpy as np
import numpy.typing as npt

# Cap on the lag-1 correlation: beyond it too few effective samples would remain.
_LARGEST_CORRELATION = 0.7


@cache
def interval_ranks(count: int, confidence: float) -> tuple[int, int] | None:
    """Return the ranks (from 0) of the order statistics that bound the median of `count` samples.

    The number of samples below the median is binomial(count, 1/2) for every distribution. The
    samples of rank r and count−1−r therefore enclose the median with probability 1 − 2·P(X ≤ r)
    (David and Nagaraja, Order Statistics, 3rd ed., section 7.1). The result is the innermost pair
    that reaches `confidence`, or None if no pair does: below 6 samples at 95 %.
    """
    inner = None
    below = 0
    for rank in range(count // 2):
        below += comb(count, rank)
        if 1 - 2 * below / 2**count < confidence:
            break
        inner = rank
    return None if inner is None else (inner, count - 1 - inner)


def ranks_of_series(
    count: int, confidence: float, correlation: npt.NDArray[np.float64]
) -> npt.NDArray[np.intp]:
    """Return for each series of `count` correlated samples the lower rank, as in `interval_ranks`.

    `correlation` is the result of `sign_correlation`, shape (series,). With lag-1 correlation r, n
    samples count as n·(1 − r)/(1 + r) independent samples, as for a mean. The rank for so few
    samples is scaled back to n samples; the smallest rank is 0.
    """
    independent = interval_ranks(count, confidence)
    assert independent is not None
    capped = np.clip(correlation, 0, _LARGEST_CORRELATION)
    effective = np.floor(count * (1 - capped) / (1 + capped)).astype(int)
    ranks = [interval_ranks(fewer, confidence) for fewer in range(count + 1)]
    lower = [pair[0] * count // fewer if pair else 0 for fewer, pair in enumerate(ranks)]
    return np.minimum(np.array(lower)[effective], independent[0]).astype(np.intp)


def sign_correlation(series: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the lag-1 correlation of each series' signs: shape (series,) from (series, samples).

    The sign of a sample states whether it is above the median of its series.
    """
    above = (series > np.median(series, axis=1, keepdims=True)).astype(float)
    above -= above.mean(axis=1, keepdims=True)
    scale = np.sum(above**2, axis=1)
    products = np.sum(above[:, 1:] * above[:, :-1], axis=1)
    return np.divide(products, scale, out=np.zeros(len(series)), where=scale > 0)


def median_interval(
    values: npt.NDArray[np.float64], confidence: float = 0.95
) -> tuple[float, float, float]:
    """Return the median of a 1-D sample and the bounds of its interval (NaN: too few samples)."""
    ordered = np.sort(values)
    median = float(np.median(ordered))
    ranks = interval_ranks(len(ordered), confidence)
    if ranks is None:
        return median, float("nan"), float("nan")
    return median, float(ordered[ranks[0]]), float(ordered[ranks[1]])
