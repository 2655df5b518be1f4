"""The distribution-free interval of a median."""

from functools import cache
from math import comb

import numpy as np
import numpy.typing as npt


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
