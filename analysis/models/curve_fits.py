"""Curve fits, which a model must outperform.

Each uses only the times of one kernel, so it predicts no other kernel, block size or GPU.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from analysis.models.comparison import left_out
from analysis.stats.estimates import FloatArray, IntArray
from analysis.stats.fitting import Data, fit, log_model, typical

_MEANING = {
    "power law": "t = c·N^p with c and p of each kernel",
    "interpolation": "straight lines in log t over log N between the measured sizes of a kernel",
}


@dataclass(frozen=True)
class CurveFit:
    """A curve fit of the times of kernels over their sizes.

    `left_out`: log(predicted/measured) of the fitted cells, by leave-one-size-out; NaN if that is
    not possible. `at` returns log times of other cells by kernels and sizes N, both (cells,).
    """

    name: str
    meaning: str
    parameters: int
    left_out: FloatArray
    at: Callable[[IntArray, FloatArray], FloatArray]


def curve_fits(data: Data, n: FloatArray) -> list[CurveFit]:
    """Return the curve fits of cells; `n` has their sizes, shape (cells,)."""
    count = int(data.kernels.max()) + 1
    by_kernel = {"power law": (_power_law, 2 * count), "interpolation": (_interpolated, len(n))}
    fits = [_constants(data, n, count)]
    for name, (line, parameters) in by_kernel.items():
        errors, at = _left_out(data, n, line), partial(_at, data, n, line)
        fits.append(CurveFit(name, _MEANING[name], parameters, errors, at))
    return fits


def _constants(data: Data, n: FloatArray, count: int) -> CurveFit:
    """Fit t = τ + c·N³, with one τ and one c per kernel, as models are fitted."""

    def design(kernels: IntArray, n: FloatArray) -> FloatArray:
        is_of_kernel = kernels[:, None] == np.arange(count)
        return np.column_stack([np.ones(len(n)), is_of_kernel * n[:, None] ** 3])

    designed = replace(data, design=design(data.kernels, n))
    fitted = fit(designed, typical(designed.design, designed.log_times) / 2)
    return CurveFit(
        "constant per kernel",
        "t = τ + c·N³ with c of each kernel",
        count + 1,
        left_out(designed, fitted, designed.sizes),
        lambda kernels, n: log_model(design(kernels, n), fitted.theta),
    )


# A function from a kernel's log N and log times (two or more), and new log N, to log times.
_Line = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]


def _power_law(log_n: FloatArray, log_s: FloatArray, wanted: FloatArray) -> FloatArray:
    middle = log_n.mean()
    slope = (log_n - middle) @ log_s / np.sum((log_n - middle) ** 2)
    return np.asarray(log_s.mean() + slope * (wanted - middle))


def _interpolated(log_n: FloatArray, log_s: FloatArray, wanted: FloatArray) -> FloatArray:
    """Interpolate between the sizes; beyond them, extrapolate from the nearest two."""
    order = np.argsort(log_n)
    log_n, log_s = log_n[order], log_s[order]
    left = np.clip(np.searchsorted(log_n, wanted) - 1, 0, len(log_n) - 2)
    slope = (np.diff(log_s) / np.diff(log_n))[left]
    return np.asarray(log_s[left] + slope * (wanted - log_n[left]))


def _left_out(data: Data, n: FloatArray, line: _Line) -> FloatArray:
    errors = np.full(len(n), np.nan)
    for cell in range(len(n)):
        others = data.kernels == data.kernels[cell]
        others[cell] = False
        if others.sum() > 1:
            predicted = line(np.log(n[others]), data.log_times[others], np.log(n[[cell]]))
            errors[cell] = predicted[0] - data.log_times[cell]
    return errors


def _at(data: Data, n: FloatArray, line: _Line, kernels: IntArray, sizes: FloatArray) -> FloatArray:
    log_s = np.full(len(sizes), np.nan)
    for kernel in np.unique(kernels):
        fitted, chosen = data.kernels == kernel, kernels == kernel
        if fitted.sum() > 1:
            log_s[chosen] = line(np.log(n[fitted]), data.log_times[fitted], np.log(sizes[chosen]))
    return log_s
