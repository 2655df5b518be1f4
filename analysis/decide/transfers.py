"""The transfer model: time of a copy = latency + bytes/bandwidth, fitted to measured copies.

The model `LINE` has one bandwidth. In the model `KNEE`, bytes beyond a knee move at another
bandwidth, as with matrices larger than the host's caches.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.optimize import brentq, least_squares
from scipy.special import fdtri

from analysis.decide.predictors import Copies
from analysis.stats.estimates import CONFIDENCE, FloatArray
from analysis.stats.fitting import least_squares_beside

LINE, KNEE = "line", "knee"
PARAMETERS = {LINE: 2, KNEE: 4}
# A latency below this share of the shortest copy is set to 0.
_LEAST_LATENCY = 1e-6
_SEARCH_LIMIT = math.log(1e8)  # largest distance of a bound from the estimate, in logarithms


@dataclass(frozen=True)
class Points:
    """Measured copies: number of consecutive copies, total bytes and seconds, each (sizes,)."""

    copies: int
    size_bytes: FloatArray
    time_s: FloatArray

    def without(self, index: int) -> "Points":
        """Return all sizes except one."""
        kept = np.arange(len(self.time_s)) != index
        return Points(self.copies, self.size_bytes[kept], self.time_s[kept])

    def log_ratios(self, model: Copies) -> FloatArray:
        """Return log(predicted/measured) of each size by a model."""
        return np.asarray(np.log(model.time_s(self.copies, self.size_bytes) / self.time_s))

    @cached_property
    def least_latency_s(self) -> float:
        """The lower limit of latency in a search; a latency at this limit counts as 0."""
        return _LEAST_LATENCY * float(self.time_s.min())


def fit(points: Points, model: str) -> Copies:
    """Fit a model (`LINE` or `KNEE`) by unweighted least squares of log time.

    Logarithms are used because with absolute errors only the largest copies would matter, not the
    small copies that show the latency. Latency and bandwidths are positive; a latency at the search
    limit is set to 0.
    """
    return _search(points, _starts(points, model))


def leave_one_out(points: Points, best: Copies) -> FloatArray:
    """Return log(predicted/measured) of each size, predicted by a fit to the other sizes.

    `best` is the fit to all sizes, from which each search starts.
    """
    errors = []
    for index in range(len(points.time_s)):
        others = points.without(index)
        errors.append(points.log_ratios(_search(others, [_logs(best, others)]))[index])
    return np.array(errors)


def interval(points: Points, best: Copies, which: str) -> tuple[float, float]:
    """Return the 95 % profile interval of a line's ``latency_s`` or ``bytes_per_s``.

    The interval contains the values at which the sum of squares, minimised over the other
    parameter, is within the F quantile of its minimum (Bates and Watts, Nonlinear Regression
    Analysis, 1988, section 6.1.2). If the latency is 0, it is still refitted for each bandwidth. 0
    or infinity means that the data give no bound.
    """
    degrees_of_freedom = len(points.time_s) - PARAMETERS[LINE]
    # Seconds of each copy: latencies, and bytes at the bandwidth; one is fixed, the other fitted.
    work = [np.full(len(points.time_s), float(points.copies)), points.size_bytes]
    fixed, free = (0, 1) if which == "latency_s" else (1, 0)
    logs, log_times = _logs(best, points), np.log(points.time_s)
    fitted = work[free][:, None]
    near = np.exp(logs[[free]])  # because the search needs a start above 0

    def squares(distance: float) -> float:
        seconds = work[fixed] * math.exp(logs[fixed] + distance)
        weights = np.ones(len(seconds))
        return least_squares_beside(seconds, fitted, log_times, weights, near)

    least = float(np.sum(points.log_ratios(best) ** 2))
    quantile = float(fdtri(1, degrees_of_freedom, CONFIDENCE))
    # For exact times, the search of `squares` ends above `least`.
    limit = max(least * (1 + quantile / degrees_of_freedom), squares(0.0)) + 1e-12
    low, high = (
        logs[fixed] + _crossing(lambda distance: squares(distance) - limit, side)
        for side in (-1, 1)
    )
    return (math.exp(low), math.exp(high)) if fixed == 0 else (math.exp(-high), math.exp(-low))


def _crossing(surplus: Callable[[float], float], side: int) -> float:
    """Return where `surplus` crosses zero on one side of 0; infinite if it does not."""
    near, far = 0.0, 1e-3
    while far < _SEARCH_LIMIT:
        if surplus(side * far) > 0:
            return side * float(brentq(lambda d: surplus(side * d), near, far, xtol=1e-6))
        near, far = far, 2 * far
    return side * math.inf


def _search(points: Points, starts: Iterable[FloatArray]) -> Copies:
    """Return the best model of searches from `starts` (see `_logs`)."""
    # A knee is determined only with at least two sizes on either side.
    last = len(points.size_bytes) - 1
    knees = np.log(np.sort(points.size_bytes)[[min(1, last), max(last - 2, 0)]])
    low = np.array([math.log(points.least_latency_s), -80, -80, knees[0]])
    high = np.array([math.log(points.time_s.max()), 0, 0, knees[1]])

    def residual(logs: FloatArray) -> FloatArray:
        return points.log_ratios(_model(logs, points))

    fits = []
    for start in starts:
        bounds = low[: len(start)], high[: len(start)]
        fits.append(least_squares(residual, np.clip(start, *bounds), bounds=bounds))
    return _model(min(fits, key=lambda one: float(one.cost)).x, points)


def _starts(points: Points, model: str) -> Iterator[FloatArray]:
    """Yield the starting points of searches; those for a knee are at quartiles of the log sizes."""
    least, most = np.argmin(points.size_bytes), np.argmax(points.size_bytes)
    latency = math.log(points.time_s[least] / points.copies / 2)
    slope = math.log(points.time_s[most] / points.size_bytes[most])
    if model == LINE:
        yield np.array([latency, slope])
        return
    for share in (0.25, 0.5, 0.75):
        knee = float(np.quantile(np.log(points.size_bytes), share))
        yield np.array([latency, slope, slope, knee])


def _logs(model: Copies, points: Points) -> FloatArray:
    """Return the logs of a model's latency, seconds per byte, seconds per byte beyond, knee."""
    values = [max(model.latency_s, points.least_latency_s), 1 / model.bytes_per_s]
    if math.isfinite(model.knee_bytes):
        values += [1 / model.beyond_bytes_per_s, model.knee_bytes]
    return np.log(values)


def _model(logs: FloatArray, points: Points) -> Copies:
    values = [float(value) for value in np.exp(logs)]
    is_none = values[0] < 2 * points.least_latency_s
    line = Copies(0.0 if is_none else values[0], 1 / values[1])
    if len(values) == PARAMETERS[LINE]:
        return line
    return replace(line, beyond_bytes_per_s=1 / values[2], knee_bytes=values[3])
