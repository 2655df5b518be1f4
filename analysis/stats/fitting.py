"""Fitting a model to times.

The time of a model is a sum of units of work times seconds per unit
(`analysis.models.definitions`). The seconds per unit minimise the weighted squares of log(model /
median). `scipy.optimize.least_squares` searches bounded logarithms from several starts.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import OptimizeResult, brentq, least_squares, nnls

from analysis.stats.estimates import FloatArray, IntArray

# Bounds of a parameter, as multiples of the value whose work alone takes the median time.
SMALLEST, LARGEST = 1e-6, 1e3
_MARGIN = np.log(2)  # a logarithm within this of its lower bound counts as 0
SMALL = 1e-3  # the least multiple at which a search starts
_LEAST_VARIANCE = 1e-12  # least variance of a log median: a deviation of one part in a million
_ROUNDS = 20
# The most halvings of a step; the last step reduces the squares by at most this share.
_HALVINGS, _LEAST_REDUCTION = 30, 1e-12


@dataclass(frozen=True)
class Data:
    """The times to fit, one row per cell, without NaN.

    `design`: units of work, shape (cells, parameters). `log_times`: logarithms of the medians in
    seconds. `variance`: the variance of each log median, 0 if unknown. `kernels`, `sizes`: for each
    cell the number of its kernel (variant and block size) and of its size N, from 0 without gaps.
    `noise`: bootstrap deviations of the log medians, shape (draws, cells).
    """

    design: FloatArray
    log_times: FloatArray
    variance: FloatArray
    kernels: IntArray
    sizes: IntArray
    noise: FloatArray

    def only(self, rows: npt.NDArray[np.bool_]) -> "Data":
        """Return some of the rows, with kernels and sizes renumbered."""
        return Data(
            self.design[rows],
            self.log_times[rows],
            self.variance[rows],
            np.unique(self.kernels[rows], return_inverse=True)[1],
            np.unique(self.sizes[rows], return_inverse=True)[1],
            self.noise[:, rows],
        )


@dataclass(frozen=True)
class Fit:
    """A fitted model.

    `theta`: seconds per unit, 0 at the lower bound. `residual`: log(model/median) of each cell.
    `weights`: the least-squares weight of each cell. `scatter`: the variance of the model's own
    error, beyond that of the medians.
    """

    theta: FloatArray
    residual: FloatArray
    weights: FloatArray
    scatter: float

    @property
    def squares(self) -> float:
        """The weighted sum of squared residuals."""
        return float(np.sum(self.weights * self.residual**2))


def fit(data: Data, near: FloatArray | None = None) -> Fit:
    """Fit the model to the data; the search starts at `near`, see `solve`.

    A weight is the inverse of the sum of two variances: that of the median, and that of the model's
    own error, which is estimated with the fit. Cells measured to 0.1 % thus do not dominate.
    """
    scatter, theta = np.inf, near
    weights = np.ones(len(data.log_times))
    for _ in range(_ROUNDS):
        theta = solve(data.design, data.log_times, weights, theta)
        residual = log_model(data.design, theta) - data.log_times
        before, scatter = scatter, _scatter(residual, data.variance, len(theta))
        weights = 1 / (data.variance + scatter + _LEAST_VARIANCE)
        if abs(scatter - before) <= 1e-6 * scatter + _LEAST_VARIANCE:
            break
    assert theta is not None
    return Fit(theta, residual, weights, scatter)


def log_model(design: FloatArray, theta: FloatArray) -> FloatArray:
    """Return the logarithm of the model's time for each cell."""
    return np.log(design @ theta)


def shares(design: FloatArray, theta: FloatArray) -> FloatArray:
    """Return the share of each kind of work in the model's time, shape (cells, parameters).

    This share is the derivative of the log time with respect to the log parameter.
    """
    parts = design * theta
    return np.asarray(parts / parts.sum(axis=1, keepdims=True))


def typical(design: FloatArray, log_times: FloatArray) -> FloatArray:
    """Return for each parameter the value at which its work alone would take the median time."""
    with np.errstate(divide="ignore"):
        alone = np.exp(log_times)[:, None] / design
    return np.array([np.median(column[np.isfinite(column)]) for column in alone.T])


def solve(
    design: FloatArray, log_times: FloatArray, weights: FloatArray, near: FloatArray | None = None
) -> FloatArray:
    """Return the parameters that minimise the weighted squares; 0 if at their lower bound.

    The search starts at `near`, by default at several points.
    """
    alone = typical(design, log_times)
    low, high = np.log(SMALLEST * alone), np.log(LARGEST * alone)
    root = np.sqrt(weights / weights.mean())

    def residual(log_theta: FloatArray) -> FloatArray:
        return root * (log_model(design, np.exp(log_theta)) - log_times)

    def slopes(log_theta: FloatArray) -> FloatArray:
        parts = design * np.exp(log_theta)
        return root[:, None] * parts / parts.sum(axis=1, keepdims=True)

    def search(start: FloatArray) -> OptimizeResult:
        # A parameter far below has no effect, so a search that starts there would not leave it.
        inside = np.log(np.clip(start, SMALL * alone, LARGEST / 2 * alone))
        return least_squares(residual, inside, slopes, (low, high), xtol=1e-10, ftol=1e-10)

    starts = _starts(design, log_times, root, alone) if near is None else [near]
    best = min((search(start) for start in starts), key=lambda result: result.cost)
    return np.where(best.x > low + _MARGIN, np.exp(best.x), 0.0)


def least_squares_beside(
    more: FloatArray, design: FloatArray, log_times: FloatArray, weights: FloatArray, at: FloatArray
) -> float:
    """Return the least weighted squares of a model with fixed `more` seconds for each cell.

    The search starts at the parameters `at`, all above 0. Its steps are Gauss–Newton steps without
    negative parameters (non-negative least squares of Lawson and Hanson), halved until the squares
    decrease. This is faster than `solve`, because profiles need many fits, but only their squares.
    """
    root = np.sqrt(weights)
    theta = at
    residual = root * (np.log(design @ theta + more) - log_times)
    while design.size:
        slopes = root[:, None] * design / (design @ theta + more)[:, None]
        scale = np.linalg.norm(slopes, axis=0)
        step = nnls(slopes / scale, slopes @ theta - residual)[0] / scale - theta
        before = residual @ residual
        for halved in range(_HALVINGS):
            nearer = theta + step / 2**halved
            with np.errstate(divide="ignore"):
                residual = root * (np.log(design @ nearer + more) - log_times)
            if residual @ residual <= before:
                break
        else:
            return float(before)
        theta = nearer
        if before - residual @ residual <= _LEAST_REDUCTION * before:
            break
    return float(residual @ residual)


def _starts(
    design: FloatArray, log_times: FloatArray, root: FloatArray, alone: FloatArray
) -> list[FloatArray]:
    """Return starts: least relative errors, equal terms, each term alone (`alone`: typical)."""
    relative = root[:, None] * design / np.exp(log_times)[:, None]
    scale = np.linalg.norm(relative, axis=0)
    nearest, _ = nnls(relative / scale, root)
    single = alone * np.eye(len(alone))
    return [nearest / scale, alone / len(alone), *single]


def _scatter(residual: FloatArray, variance: FloatArray, parameters: int) -> float:
    """Return the variance of the residuals minus the variance of the medians, at least 0.

    With it the weighted squares of the residuals equal the degrees of freedom (Paule and Mandel,
    J. Res. NBS 87 (1982) 377).
    """
    degrees_of_freedom = len(residual) - parameters
    of_medians = variance + _LEAST_VARIANCE

    def surplus(scatter: float) -> float:
        return float(np.sum(residual**2 / (of_medians + scatter)) - degrees_of_freedom)

    if degrees_of_freedom < 1 or surplus(0.0) <= 0:
        return 0.0
    return float(brentq(surplus, 0.0, np.sum(residual**2) / degrees_of_freedom, xtol=1e-15))
