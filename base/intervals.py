"""The distribution-free interval of a median."""

from functools import cache
from math import comb

import numpy as np
import numpy.typing as npt

# Samples that resemble those before by more than this tell too little of it to be believed.
_MOST_ALIKE = 0.7


@cache
def interval_ranks(count: int, confidence: float) -> tuple[int, int] | None:
    """Return the ranks (from 0) of the order statistics that bound the median of `count` samples.

    The number of samples below the median is binomial(count, 1/2), whatever the distribution, so
    the samples of rank r and count−1−r enclose it with probability 1 − 2·P(X ≤ r) (David and
    Nagaraja, Order Statistics, 3rd ed., section 7.1). The ranks are the innermost pair that reaches
    `confidence`; None where even the outermost does not: below 6 samples at 95 %.
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
    count: int, confidence: float, likeness: npt.NDArray[np.float64]
) -> npt.NDArray[np.intp]:
    """Return the lower rank of `interval_ranks` for series of `count` samples that are alike.

    `likeness` is that of `sign_likeness`, shape (series,). As for a mean, samples of which each
    resembles the one before by r count as n·(1 − r)/(1 + r) independent ones, and the rank is at
    the same place among n as it is among these (never below the outermost pair, which exists).
    """
    own = interval_ranks(count, confidence)
    assert own is not None
    alike = np.clip(likeness, 0, _MOST_ALIKE)
    effective = np.floor(count * (1 - alike) / (1 + alike)).astype(int)
    places = [interval_ranks(fewer, confidence) for fewer in range(count + 1)]
    lower = [place[0] * count // fewer if place else 0 for fewer, place in enumerate(places)]
    return np.minimum(np.array(lower)[effective], own[0]).astype(np.intp)


def sign_likeness(series: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return how far samples resemble the one before: shape (series,) from (series, samples).

    It is the correlation, at a lag of one, of whether a sample is above the median.
    """
    above = (series > np.median(series, axis=1, keepdims=True)).astype(float)
    above -= above.mean(axis=1, keepdims=True)
    scale = np.sum(above**2, axis=1)
    products = np.sum(above[:, 1:] * above[:, :-1], axis=1)
    return np.divide(products, scale, out=np.zeros(len(series)), where=scale > 0)


def median_interval(
    values: npt.NDArray[np.float64], confidence: float = 0.95
) -> tuple[float, float, float]:
    """Return the median of a 1-D sample and the bounds of its interval, NaN where there is none."""
    ordered = np.sort(values)
    median = float(np.median(ordered))
    ranks = interval_ranks(len(ordered), confidence)
    if ranks is None:
        return median, float("nan"), float("nan")
    return median, float(ordered[ranks[0]]), float(ordered[ranks[1]])
