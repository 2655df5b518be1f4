"""How far the parameters and predictions of a fitted model can be trusted.

Errors are of two kinds. The model's own: it charges all kernels and orders alike, so that what it
misses in one cell it may miss in all cells of that kernel, or of that order. And the samples': each
median is known to its interval only. Both are drawn anew: from the residuals the effects of
kernels, of orders and of single cells, each with replacement and blown up to the variance that it
must have had for the fit to leave what it left (Carpenter, Goldstein and Rasbash, J. R. Statist.
Soc. C 52 (2003) 431); from the bootstrap of each cell's samples, its median. Each draw moves the
logarithms of the parameters by one step of Gauss and Newton. Where a parameter is known so badly
that one step does not reach, its interval is that of the profile likelihood.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq, nnls
from scipy.stats import norm

from analysis.stats.estimates import CONFIDENCE, FloatArray, percentile_interval, seeded
from analysis.stats.fitting import (
    LARGEST,
    SMALL,
    SMALLEST,
    Data,
    Fit,
    IntArray,
    least_squares_beside,
    log_model,
    shares,
    typical,
)

BOOTSTRAP, PROFILE = "bootstrap", "profile likelihood"
DETERMINED, AT_MOST, AT_LEAST = "determined", "at most", "at least"
NOT_DETERMINED, NO_INTERVAL = "not determined", "no interval"

# A logarithm whose draws spread more than this is left to the profile likelihood.
_LINEAR = 0.4
_FEWEST = 2  # orders, for an interval; kernels or orders, for what they have in common
# Parameters of which one does what another does have no draws; their slopes are this near to alike.
_ALIKE = 1e-8
_NORMAL = float(norm.ppf((1 + CONFIDENCE) / 2))
_NARROWEST = 1e-12


@dataclass(frozen=True)
class Estimate:
    """A fitted value with its 95 % interval, and by what method that is; NaN bounds: there is none.

    A lower bound of 0 and an upper one of infinity stand for an end to which the data set no bound.
    """

    value: float
    low: float
    high: float
    method: str

    @property
    def status(self) -> str:
        """What the data say of the value: one of the words above."""
        if np.isnan([self.low, self.high]).any():
            return NO_INTERVAL
        if self.low > 0:
            return DETERMINED if self.high < np.inf else AT_LEAST
        return AT_MOST if self.high < np.inf else NOT_DETERMINED


@dataclass(frozen=True)
class _Effects:
    """What all cells of a kernel, of an order, or of themselves, have in common.

    `pattern`: the effects found, of mean square 1; `variance` is what they must have had; `freedom`
    is how many of them the fit left free.
    """

    pattern: FloatArray
    variance: float
    degrees_of_freedom: int

    def draw(self, rng: np.random.Generator, draws: int, count: int) -> FloatArray:
        """Return effects of `count` others, shape (draws, count).

        Their variance is itself known from a few effects only, and drawn too.
        """
        chosen = self.pattern[rng.integers(len(self.pattern), size=(draws, count))]
        variance = (
            self.variance
            * self.degrees_of_freedom
            / rng.chisquare(self.degrees_of_freedom, (draws, 1))
        )
        return np.asarray(np.sqrt(variance) * chosen)


@dataclass(frozen=True)
class _Profile:
    """How a value is held while the other parameters are fitted.

    `fixed` returns, for a value, the design and the seconds of each cell that are known; of the
    design, the column `removed` is not fitted. The value is sought within `limits`. `worst` is that
    parameter on which its interval depends most.
    """

    fixed: Callable[[float], tuple[FloatArray, FloatArray]]
    removed: int
    limits: tuple[float, float]
    worst: int


class Uncertainty:
    """Draws of the errors of a fit, and what follows for its parameters and predictions."""

    def __init__(self, data: Data, fit: Fit, *key: object) -> None:
        """Draw the errors, as many times as `data.noise` has draws; `key` seeds them."""
        self._data, self._fit = data, fit
        self._rng = seeded("models", *key)
        self._free = fit.theta > 0
        slopes = shares(data.design, fit.theta)[:, self._free]
        reach = _least_squares(slopes, fit.weights)
        self._effects = _effects(data, fit, np.eye(len(slopes)) - slopes @ reach)
        self.errors = self._own_errors(data.kernels, data.orders) + data.noise
        self._steps = np.full((len(data.noise), len(fit.theta)), np.nan)
        if _are_apart(slopes, fit.weights):
            self._steps[:, self._free] = self.errors @ reach.T

    def parameter(self, index: int) -> Estimate:
        """Return a parameter with its interval, in seconds a unit."""
        design = self._data.design
        scale = typical(design, self._data.log_times)[index]
        profile = _Profile(
            lambda value: (design, design[:, index] * value),
            removed=index,
            limits=(SMALLEST * scale, LARGEST * scale),
            worst=index,
        )
        return self._estimate(self._fit.theta[index], self._steps[:, index], profile)

    def ratio(self, above: int, below: int) -> Estimate:
        """Return the ratio of two parameters with its interval."""
        design, theta = self._data.design, self._fit.theta

        def fixed(value: float) -> tuple[FloatArray, FloatArray]:
            merged = design.copy()
            merged[:, above] += design[:, below] / value
            return merged, np.zeros(len(design))

        scale = typical(design, self._data.log_times)
        like = scale[above] / scale[below]
        spread = np.where(theta > 0, self._steps.std(axis=0), np.inf)
        profile = _Profile(
            fixed,
            removed=below,
            limits=(SMALLEST * like, like / SMALLEST),
            worst=below if spread[below] >= spread[above] else above,
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            value = float(np.divide(theta[above], theta[below]))
        return self._estimate(value, self._steps[:, above] - self._steps[:, below], profile)

    def prediction(self, design: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the bounds of the prediction interval of other cells, in seconds, each (cells,).

        The median of such a cell, of whatever kernel and order, lies between them in 95 % of cases.
        NaN where there is no interval.
        """
        if self._has_no_interval or np.isnan(self._steps[:, self._free]).any():
            nothing = np.full(len(design), np.nan)
            return nothing, nothing
        slopes = shares(design, self._fit.theta)[:, self._free]
        each = np.arange(len(design))
        errors = self._steps[:, self._free] @ slopes.T - self._own_errors(each, each)
        low, high = percentile_interval(errors.T)
        predicted = log_model(design, self._fit.theta)
        return np.exp(predicted + low), np.exp(predicted + high)

    @property
    def _has_no_interval(self) -> bool:
        return len(np.unique(self._data.orders)) < _FEWEST

    def _own_errors(self, kernels: IntArray, orders: IntArray) -> FloatArray:
        """Return errors of the model in cells of these kernels and orders, shape (draws, cells)."""
        draws, cells = len(self._data.noise), len(kernels)
        errors = np.zeros((draws, cells))
        for effects, of in zip(self._effects, (kernels, orders, np.arange(cells)), strict=True):
            errors += effects.draw(self._rng, draws, int(of.max(initial=-1)) + 1)[:, of]
        return errors

    def _estimate(self, value: float, steps: FloatArray, profile: "_Profile") -> Estimate:
        """Return a value with the interval of its draws, or else of its profile likelihood."""
        if self._has_no_interval:
            return Estimate(float(value), np.nan, np.nan, "")
        if steps.std() < _LINEAR:  # not if they are NaN
            low, high = value * np.exp(percentile_interval(steps))
            return Estimate(float(value), float(low), float(high), BOOTSTRAP)
        low, high = self._bounds(value, profile)
        return Estimate(float(value), low, high, PROFILE)

    def _bounds(self, value: float, profile: "_Profile") -> tuple[float, float]:
        """Return between which values the data leave the parameter or ratio.

        That is where the least squares with the value held exceed the least of all by no more than
        the errors drawn make likely; 0 and infinity where they do not at either limit.
        """
        data, weights = self._data, self._fit.weights
        allowed = _NORMAL**2 * self._inflation(profile.worst)
        least = SMALL * typical(data.design, data.log_times)
        near = np.delete(np.maximum(self._fit.theta, least), profile.removed)

        def excess(log_value: float) -> float:
            design, known = profile.fixed(float(np.exp(log_value)))
            design = np.delete(design, profile.removed, axis=1)
            squares = least_squares_beside(known, design, data.log_times, weights, near)
            return squares - self._fit.squares - allowed

        ends = np.log(profile.limits)
        with np.errstate(divide="ignore"):
            best = float(np.clip(np.log(value), *ends)) if value == value else float(ends.mean())
        bounds = []
        for end, open_end in zip(ends, (0.0, np.inf), strict=True):
            if best == end or excess(best) >= 0 or excess(end) <= 0:
                bounds.append(open_end)
            else:
                bounds.append(float(np.exp(brentq(excess, best, end, xtol=1e-3))))
        return bounds[0], bounds[1]

    def _inflation(self, index: int) -> float:
        """Return the variance of a parameter by the errors drawn, over that of independent cells.

        In a parameter itself, not its logarithm: it may be 0.
        """
        relative = self._data.design / (self._data.design @ self._fit.theta)[:, None]
        relative = relative / np.linalg.norm(relative, axis=0)
        reach = _least_squares(relative, self._fit.weights)[index]
        low, high = percentile_interval(self.errors @ reach)
        independent = np.sum(reach**2 / self._fit.weights)
        return float(max(((high - low) / (2 * _NORMAL)) ** 2 / independent, 1.0))


def _least_squares(slopes: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the matrix that turns errors of the cells into those of the parameters."""
    root = np.sqrt(weights)
    return np.asarray(np.linalg.pinv(root[:, None] * slopes) * root)


def _are_apart(slopes: FloatArray, weights: FloatArray) -> bool:
    """Tell whether the parameters can be told from each other."""
    scaled = np.sqrt(weights)[:, None] * slopes
    singular = np.linalg.svd(scaled / np.linalg.norm(scaled, axis=0), compute_uv=False)
    return bool(singular.min() > _ALIKE)


def _effects(data: Data, fit: Fit, left: FloatArray) -> list[_Effects]:
    """Return the effects of kernels, of orders and of cells in a fit's residuals.

    `left` is the matrix that turns the model's errors into the residuals. The variances are those
    with which the squares of the residuals, summed by kernels, by orders and by cells, have the
    expectation that was found (Rao's MINQUE of weights alone, J. Multivar. Anal. 1 (1971) 257).
    """
    cells = np.arange(len(fit.residual))
    levels = (data.kernels, data.orders, cells)
    members = [(of[:, None] == np.arange(of.max() + 1)).astype(float) for of in levels]
    sums = [
        (own * fit.weights[:, None] / np.sqrt(fit.weights @ own)).T
        for own in members  # of a weighted residual by group, of mean square 1 a unit of variance
    ]
    found = np.array([np.sum((matrix @ fit.residual) ** 2) for matrix in sums])
    seen = [matrix @ left for matrix in sums]
    known = np.array([np.sum(errors**2 @ data.variance) for errors in seen])
    expected = np.array([[np.sum((errors @ own) ** 2) for own in members] for errors in seen])
    counts = np.array([own.shape[1] for own in members])
    expected[:, counts < _FEWEST] = 0  # of one kernel, what kernels have in common is not known
    scale = np.maximum(expected[:, -1], _NARROWEST)
    variances, _ = nnls(expected / scale[:, None], (found - known) / scale)
    degrees_of_degrees_of_freedom = (
        counts[0] - len(np.flatnonzero(fit.theta)),
        counts[1] - 1,
        counts[2] - counts[0] - counts[1] + 1,
    )
    effects, rest = [], fit.residual
    for of, variance, degrees_of_freedom in zip(
        levels, variances, degrees_of_degrees_of_freedom, strict=True
    ):
        mean = np.bincount(of, fit.weights * rest) / np.bincount(of, fit.weights)
        rest = rest - mean[of]
        size = float(np.sqrt(np.mean(mean**2)))
        pattern = mean / size if size > _NARROWEST else np.zeros(len(mean))
        effects.append(_Effects(pattern, float(variance), max(int(degrees_of_freedom), 1)))
    return effects
