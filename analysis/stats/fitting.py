"""Fitting a model to times, and how far its parameters can be trusted.

A model is a sum of units of work times seconds a unit (`analysis.models.definitions`). The seconds
a unit are those with which the logarithms of its times come nearest to the logarithms of the
measured medians: weighted least squares, by `scipy.optimize.least_squares`, bounded, in the
logarithms of the parameters, from several starts.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import OptimizeResult, brentq, least_squares, nnls

from analysis.stats.estimates import FloatArray

IntArray = npt.NDArray[np.intp]

# A parameter is sought between so small a share of the median time and so large a multiple of it.
SMALLEST, LARGEST = 1e-6, 1e3
# What is within this of the lower bound, in its logarithm, has run to it: the data do not tell it
# from nothing.
_MARGIN = np.log(2)
SMALL = 1e-3  # so small a share of the median time a search begins at
# No median is trusted beyond one part in a million.
_LEAST_VARIANCE = 1e-12
_ROUNDS = 20
# A step is halved so often at most; the last takes no more than this share off the squares.
_HALVINGS, _LEAST_SPEEDUP = 30, 1e-12


@dataclass(frozen=True)
class Data:
    """Times to fit, a row a cell; nothing in them is NaN.

    `design`: units of work, shape (cells, parameters). `log_times`: of the medians in seconds.
    `variance`: of each of them, 0 where it is not known. `kernels`, `orders`: which kernel (variant
    and block size) and which order a cell is of, numbered from 0 without gaps. `noise`: bootstrap
    deviations of the log medians, shape (draws, cells).
    """

    design: FloatArray
    log_times: FloatArray
    variance: FloatArray
    kernels: IntArray
    orders: IntArray
    noise: FloatArray

    def only(self, rows: npt.NDArray[np.bool_]) -> "Data":
        """Return some of the rows; kernels and orders are numbered anew."""
        return Data(
            self.design[rows],
            self.log_times[rows],
            self.variance[rows],
            np.unique(self.kernels[rows], return_inverse=True)[1],
            np.unique(self.orders[rows], return_inverse=True)[1],
            self.noise[:, rows],
        )


@dataclass(frozen=True)
class Fit:
    """A fitted model: `theta` in seconds a unit, 0 where it ran to its lower bound.

    `residual`: log(model/median) of each cell; `weights` of each; `scatter`: the variance of the
    model's own error.
    """

    theta: FloatArray
    residual: FloatArray
    weights: FloatArray
    scatter: float

    @property
    def squares(self) -> float:
        """The weighted sum of squares."""
        return float(np.sum(self.weights * self.residual**2))


def fit(data: Data, near: FloatArray | None = None) -> Fit:
    """Fit the model to the data; `near` is where the search begins, as for `solve`.

    Weights are the inverse of the medians' variance plus a variance of the model's own scatter,
    found along with the fit, so that cells measured to 0.1 % do not pretend that the model is exact
    to 0.1 %.
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
    """Return the logarithms of the model's times."""
    return np.log(design @ theta)


def shares(design: FloatArray, theta: FloatArray) -> FloatArray:
    """Return the share of each kind of work in the model's time of each cell.

    It is the slope of the time's logarithm by the parameter's.
    """
    parts = design * theta
    return np.asarray(parts / parts.sum(axis=1, keepdims=True))


def typical(design: FloatArray, log_times: FloatArray) -> FloatArray:
    """Return, for each parameter, with which value its work alone would take the median time."""
    with np.errstate(divide="ignore"):
        alone = np.exp(log_times)[:, None] / design
    return np.array([np.median(column[np.isfinite(column)]) for column in alone.T])


def solve(
    design: FloatArray,
    log_times: FloatArray,
    weights: FloatArray,
    near: FloatArray | None = None,
) -> FloatArray:
    """Return the parameters of the least weighted squares, those at their lower bound as 0.

    `near`: parameters near which the search begins; without, it begins at several places.
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
        # Far below, a parameter does nothing, and a search that begins there finds no way up.
        inside = np.log(np.clip(start, SMALL * alone, LARGEST / 2 * alone))
        return least_squares(residual, inside, slopes, (low, high), xtol=1e-10, ftol=1e-10)

    starts = _starts(design, log_times, root, alone) if near is None else [near]
    best = min((search(start) for start in starts), key=lambda found: found.cost)
    return np.where(best.x > low + _MARGIN, np.exp(best.x), 0.0)


def least_squares_beside(
    known: FloatArray,
    design: FloatArray,
    log_times: FloatArray,
    weights: FloatArray,
    near: FloatArray,
) -> float:
    """Return the least weighted squares of a model that has `known` seconds of each cell beside.

    The search begins at the parameters `near`, all above 0. Each of its steps is Gauss and Newton's
    without negative parameters (Lawson and Hanson's non-negative least squares), halved until the
    squares fall. It serves profiles, which ask for many fits and for their squares alone.
    """
    root = np.sqrt(weights)
    theta = near
    residual = root * (np.log(design @ theta + known) - log_times)
    while design.size:
        slopes = root[:, None] * design / (design @ theta + known)[:, None]
        scale = np.linalg.norm(slopes, axis=0)
        step = nnls(slopes / scale, slopes @ theta - residual)[0] / scale - theta
        before = residual @ residual
        for halved in range(_HALVINGS):
            nearer = theta + step / 2**halved
            with np.errstate(divide="ignore"):
                residual = root * (np.log(design @ nearer + known) - log_times)
            if residual @ residual <= before:
                break
        else:
            return float(before)
        theta = nearer
        if before - residual @ residual <= _LEAST_SPEEDUP * before:
            break
    return float(residual @ residual)


def _starts(
    design: FloatArray, log_times: FloatArray, root: FloatArray, alone: FloatArray
) -> list[FloatArray]:
    """Return where to search from: relative errors least, all terms alike, each one alone.

    `alone` is what `typical` returns.
    """
    relative = root[:, None] * design / np.exp(log_times)[:, None]
    scale = np.linalg.norm(relative, axis=0)
    nearest, _ = nnls(relative / scale, root)
    single = alone * np.eye(len(alone))
    return [nearest / scale, alone / len(alone), *single]


def _scatter(residual: FloatArray, variance: FloatArray, parameters: int) -> float:
    """Return the variance that the medians' own does not explain.

    With it the weighted squares of the residuals sum to the degrees of freedom (Paule and Mandel,
    J. Res. NBS 87 (1982) 377); 0 if the medians' variance is enough.
    """
    degrees_of_freedom = len(residual) - parameters
    known = variance + _LEAST_VARIANCE

    def surplus(scatter: float) -> float:
        return float(np.sum(residual**2 / (known + scatter)) - degrees_of_freedom)

    if degrees_of_freedom < 1 or surplus(0.0) <= 0:
        return 0.0
    return float(brentq(surplus, 0.0, np.sum(residual**2) / degrees_of_freedom, xtol=1e-15))
