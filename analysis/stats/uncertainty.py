"""Intervals of the parameters of a fitted model.

A model's own errors are alike for cells of one kernel and for cells of one size. Each median also
has an error from its samples. Draws of the model's errors resample the effects of kernels, sizes
and single cells among the residuals, scaled to the variance that explains the residuals of the fit
(Carpenter, Goldstein and Rasbash, J. R. Statist. Soc. C 52 (2003) 431). Draws of the medians'
errors are bootstrap medians. In each draw, one Gauss–Newton step gives the log parameters. If a
parameter is too uncertain for one step, its interval is computed by profile likelihood.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq, nnls
from scipy.special import ndtri

from analysis.stats import fitting
from analysis.stats.estimates import CONFIDENCE, FloatArray, IntArray, percentile_interval, seeded

BOOTSTRAP, PROFILE = "bootstrap", "profile likelihood"
DETERMINED, AT_MOST, AT_LEAST = "determined", "at most", "at least"
NOT_DETERMINED, NO_INTERVAL = "not determined", "no interval"

_LINEAR = 0.4  # standard deviation of a log parameter from which the profile likelihood is used
_FEWEST = 2  # least sizes for an interval, and least kernels or sizes for a common effect
_ALIKE = 1e-8  # singular value below which two parameters have the same effect
_NORMAL = float(ndtri((1 + CONFIDENCE) / 2))
_NARROWEST = 1e-12


@dataclass(frozen=True)
class Estimate:
    """A fitted value with its 95 % interval and method; NaN bounds: no interval.

    A lower bound of 0 or an upper bound of infinity means that the data set no bound.
    """

    value: float
    low: float
    high: float
    method: str

    @property
    def status(self) -> str:
        """How well the data determine the value, in words."""
        if np.isnan([self.low, self.high]).any():
            return NO_INTERVAL
        if self.low > 0:
            return DETERMINED if self.high < np.inf else AT_LEAST
        return AT_MOST if self.high < np.inf else NOT_DETERMINED


@dataclass(frozen=True)
class _Effects:
    """Errors that the cells of one kernel share, or those of one size, or single cells.

    `pattern`: the effects that were found, scaled to mean square 1. `variance`: their estimated
    variance. `degrees_of_freedom`: the effects that the fit leaves free.
    """

    pattern: FloatArray
    variance: float
    degrees_of_freedom: int

    def draw(self, rng: np.random.Generator, draws: int, count: int) -> FloatArray:
        """Return draws of `count` new effects, shape (draws, count).

        Their variance is drawn too, because it is estimated from a few effects.
        """
        chosen = self.pattern[rng.integers(len(self.pattern), size=(draws, count))]
        free = self.degrees_of_freedom
        variance = self.variance * free / rng.chisquare(free, (draws, 1))
        return np.asarray(np.sqrt(variance) * chosen)


@dataclass(frozen=True)
class _Profile:
    """How the profile likelihood fixes a value and fits the other parameters.

    For a value, `fixed` returns the design, and the seconds of each cell that this value fixes; the
    column `removed` of the design is not fitted. The value is searched within `limits`. `worst` is
    the parameter on which its interval depends most.
    """

    fixed: Callable[[float], tuple[FloatArray, FloatArray]]
    removed: int
    limits: tuple[float, float]
    worst: int


class Uncertainty:
    """Draws of the errors of a fit, which give intervals of its parameters."""

    def __init__(self, data: fitting.Data, fit: fitting.Fit, *key: object) -> None:
        """Draw the errors, as many times as `data.noise` has draws; `key` seeds them."""
        self._data, self._fit = data, fit
        self._free = fit.theta > 0
        slopes = fitting.shares(data.design, fit.theta)[:, self._free]
        reach = _least_squares(slopes, fit.weights)
        effects = _effects(data, fit, np.eye(len(slopes)) - slopes @ reach)
        rng, errors = seeded("models", *key), np.zeros(data.noise.shape)
        for each, of in zip(effects, _levels(data), strict=True):
            errors += each.draw(rng, len(errors), int(of.max()) + 1)[:, of]
        self.errors = errors + data.noise
        self._steps = np.full((len(data.noise), len(fit.theta)), np.nan)
        scaled = np.sqrt(fit.weights)[:, None] * slopes
        singular = np.linalg.svd(scaled / np.linalg.norm(scaled, axis=0), compute_uv=False)
        if singular.min() > _ALIKE:  # all parameters have distinct effects
            self._steps[:, self._free] = self.errors @ reach.T

    def parameter(self, index: int) -> Estimate:
        """Return a parameter, in seconds per unit, with its interval."""
        design = self._data.design
        scale = fitting.typical(design, self._data.log_times)[index]
        profile = _Profile(
            lambda value: (design, design[:, index] * value),
            removed=index,
            limits=(fitting.SMALLEST * scale, fitting.LARGEST * scale),
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

        scale = fitting.typical(design, self._data.log_times)
        like = scale[above] / scale[below]
        spread = np.where(theta > 0, self._steps.std(axis=0), np.inf)
        profile = _Profile(
            fixed,
            removed=below,
            limits=(fitting.SMALLEST * like, like / fitting.SMALLEST),
            worst=below if spread[below] >= spread[above] else above,
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            value = float(np.divide(theta[above], theta[below]))
        return self._estimate(value, self._steps[:, above] - self._steps[:, below], profile)

    def _estimate(self, value: float, steps: FloatArray, profile: "_Profile") -> Estimate:
        """Return a value with the interval from its draws, or from its profile likelihood."""
        if len(np.unique(self._data.sizes)) < _FEWEST:
            return Estimate(float(value), np.nan, np.nan, "")
        if steps.std() < _LINEAR:  # the comparison is False for NaN
            low, high = value * np.exp(percentile_interval(steps))
            return Estimate(float(value), float(low), float(high), BOOTSTRAP)
        low, high = self._bounds(value, profile)
        return Estimate(float(value), low, high, PROFILE)

    def _bounds(self, value: float, profile: "_Profile") -> tuple[float, float]:
        """Return the bounds of a parameter or ratio from its profile likelihood.

        If a value is within the bounds, fixing it raises the least squares by no more than the
        drawn errors allow. A bound that is not reached within the limits is 0 or ∞.
        """
        data, weights = self._data, self._fit.weights
        allowed = _NORMAL**2 * self._inflation(profile.worst)
        least = fitting.SMALL * fitting.typical(data.design, data.log_times)
        near = np.delete(np.maximum(self._fit.theta, least), profile.removed)

        def excess(log_value: float) -> float:
            design, seconds = profile.fixed(float(np.exp(log_value)))
            design = np.delete(design, profile.removed, axis=1)
            squares = fitting.least_squares_beside(seconds, design, data.log_times, weights, near)
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
        """Return a parameter's variance from drawn errors, over that for independent cells.

        It is the variance of the parameter, not of its logarithm, because the parameter may be 0.
        """
        relative = self._data.design / (self._data.design @ self._fit.theta)[:, None]
        relative = relative / np.linalg.norm(relative, axis=0)
        reach = _least_squares(relative, self._fit.weights)[index]
        low, high = percentile_interval(self.errors @ reach)
        independent = np.sum(reach**2 / self._fit.weights)
        return float(max(((high - low) / (2 * _NORMAL)) ** 2 / independent, 1.0))


def _least_squares(slopes: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the matrix that maps errors of the cells to errors of the parameters."""
    root = np.sqrt(weights)
    return np.asarray(np.linalg.pinv(root[:, None] * slopes) * root)


def _levels(data: fitting.Data) -> tuple[IntArray, IntArray, IntArray]:
    return data.kernels, data.sizes, np.arange(len(data.log_times))


def _effects(data: fitting.Data, fit: fitting.Fit, left: FloatArray) -> list[_Effects]:
    """Return the effects of kernels, of sizes and of cells in the residuals of a fit.

    `left` is the matrix that maps the model's errors to the residuals. With the variances returned,
    the squares of the residuals summed by kernels, by sizes and by cells have the expectation that
    was found (Rao's MINQUE of weights alone, J. Multivar. Anal. 1 (1971) 257).
    """
    levels = _levels(data)
    members = [(of[:, None] == np.arange(of.max() + 1)).astype(float) for of in levels]
    sums = [
        (group * fit.weights[:, None] / np.sqrt(fit.weights @ group)).T
        for group in members  # mean square of weighted residuals by group, per unit of variance
    ]
    squares = np.array([np.sum((matrix @ fit.residual) ** 2) for matrix in sums])
    seen = [matrix @ left for matrix in sums]
    of_medians = np.array([np.sum(errors**2 @ data.variance) for errors in seen])
    expected = np.array([[np.sum((errors @ group) ** 2) for group in members] for errors in seen])
    counts = np.array([group.shape[1] for group in members])
    expected[:, counts < _FEWEST] = 0  # one kernel does not show what kernels have in common
    scale = np.maximum(expected[:, -1], _NARROWEST)
    variances, _ = nnls(expected / scale[:, None], (squares - of_medians) / scale)
    kernels, sizes, cells = counts
    degrees = (kernels - len(np.flatnonzero(fit.theta)), sizes - 1, cells - kernels - sizes + 1)
    effects, rest = [], fit.residual
    for of, variance, degrees_of_freedom in zip(levels, variances, degrees, strict=True):
        mean = np.bincount(of, fit.weights * rest) / np.bincount(of, fit.weights)
        rest = rest - mean[of]
        size = float(np.sqrt(np.mean(mean**2)))
        pattern = mean / size if size > _NARROWEST else np.zeros(len(mean))
        effects.append(_Effects(pattern, float(variance), max(int(degrees_of_freedom), 1)))
    return effects
