"""Fitting the surfaces of `analysis.decide.surfaces`, and the errors of their predictions.

The coefficients minimise relative errors and are not negative (NNLS). The remaining errors of log
time are interpolated between the measured shapes (simple kriging). Each shape is also predicted
from the others, with coefficients fitted to the others. These leave-one-out errors, divided by
`reach`, give the prediction intervals (conformal), separately for each class of shapes.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

from analysis.decide.surfaces import (
    CLASSES,
    IN,
    OUT,
    FloatArray,
    Surface,
    amounts,
    class_of,
    combined,
    reach,
)
from analysis.stats.estimates import conformal

LEAST_SHAPES = 7
_OCTAVES, _SHARES, _NOISES = (2.0, 4.0, 8.0, 16.0), (0.0, 0.5, 0.8), (0.03, 0.1, 0.3)
_FEWEST = 5  # least number of errors of a class that give its own interval
# An end-to-end run is a latency, copies, and a kernel that has a surface of its own.
_OF_RUNS = [0, IN, OUT]


@dataclass(frozen=True)
class Measured:
    """Measured times in s at shapes, which are the rows (m, n, k) of an array.

    For end-to-end runs at a `location`, `kernel_s` are the kernel's times on its surface, and
    `left_out_kernel_s` those that were predicted without the shape.
    """

    shapes: FloatArray
    time_s: FloatArray
    kernel_s: FloatArray
    left_out_kernel_s: FloatArray
    location: str | None = None
    multiprocessors: int = 0

    @classmethod
    def of(cls, shapes: FloatArray, time_s: FloatArray, multiprocessors: int = 0) -> "Measured":
        """Return measured times without copies: those of a kernel or of a CPU."""
        none = np.zeros(len(time_s))
        return cls(shapes, time_s, none, none, None, multiprocessors)

    def without(self, index: int) -> "Measured":
        """Return the measured times without the shape at this index."""
        kept = np.arange(len(self.time_s)) != index
        arrays = {name: getattr(self, name)[kept] for name in ("shapes", "time_s", "kernel_s")}
        return replace(self, **arrays)

    def terms(self, power: int) -> tuple[FloatArray, FloatArray]:
        """Return the coefficients of the terms, and log(measured/fitted time) of each shape."""
        amount = amounts(self.shapes, self.location, self.multiprocessors)
        if self.location:
            amount[:, np.delete(np.arange(amount.shape[1]), _OF_RUNS)] = 0
        are_square = bool((np.ptp(self.shapes, axis=1) == 0).all())
        if are_square:  # one rate for both directions: their bytes are proportional
            amount[:, IN] += amount[:, OUT]
            amount[:, OUT] = 0
        scale = np.maximum(amount.max(axis=0), 1e-300)  # amounts differ by many powers of ten
        relative = (amount / scale / self.time_s[:, None]) ** power
        found, _ = nnls(relative, (1 - self.kernel_s / self.time_s) ** power)
        coefficients = found ** (1 / power) / scale
        times_s = combined(amount * coefficients, power) + self.kernel_s
        if are_square:
            coefficients[OUT] = coefficients[IN]
        return coefficients, np.log(self.time_s / np.maximum(times_s, 1e-12))

    @property
    def choices(self) -> Iterator[tuple[int, float, float, float]]:
        """Yield the powers, correlation lengths, shares and noises to try."""
        return itertools.product((1,) if self.location else (1, 2), _OCTAVES, _SHARES, _NOISES)


@dataclass(frozen=True)
class Fit:
    """A surface, and its leave-one-out errors log(predicted/measured), one per shape."""

    surface: Surface
    errors: FloatArray


def fit(measured: Measured) -> Fit:
    """Return the surface whose choice of `choices` has the least leave-one-out errors."""
    choice = min(measured.choices, key=lambda choice: _score(measured, *choice))
    surface = _surface(measured, *choice)
    errors = np.array([_left_out(measured, index, surface) for index in range(len(surface.nodes))])
    return Fit(replace(surface, errors=_by_class(surface, measured.shapes, errors)), errors)


def _surface(measured: Measured, power: int, octaves: float, share: float, noise: float) -> Surface:
    """Return the surface of one choice, without its errors."""
    coefficients, errors = measured.terms(power)
    nodes = np.log2(measured.shapes)
    surface = Surface(
        coefficients,
        power,
        measured.multiprocessors,
        measured.location,
        nodes,
        errors,
        octaves,
        share,
        noise,
        dict.fromkeys(CLASSES, 0.0),
    )
    weights = np.linalg.solve(_covariance(surface, measured), errors)
    return replace(surface, weights=np.asarray(weights, float))


def _covariance(surface: Surface, measured: Measured) -> FloatArray:
    between = surface.similarity(measured.shapes)
    return np.asarray(between + surface.noise * np.eye(len(between)))


def _score(measured: Measured, power: int, octaves: float, share: float, noise: float) -> float:
    """Return the mean square of leave-one-out errors, with coefficients fitted to all shapes."""
    surface = _surface(measured, power, octaves, share, noise)
    inverse = np.linalg.inv(_covariance(surface, measured))
    return float(np.mean((surface.weights / np.diag(inverse)) ** 2))


def _left_out(measured: Measured, index: int, of_all: Surface) -> float:
    """Return log(predicted/measured) of one shape, predicted by a fit to the others."""
    choice = (of_all.power, of_all.octaves, of_all.size_share, of_all.noise)
    others = _surface(measured.without(index), *choice)
    kernel_s = measured.left_out_kernel_s[[index]]
    predicted_s = max(others.time_s(measured.shapes[[index]], kernel_s)[0], 1e-12)
    return float(np.log(predicted_s / measured.time_s[index]))


def _by_class(surface: Surface, shapes: FloatArray, errors: FloatArray) -> dict[str, float]:
    """Return the half-width of the prediction interval by class, in units of `reach`.

    For a class with few shapes, the errors of all shapes count.
    """
    similar = surface.similarity(shapes)
    np.fill_diagonal(similar, 0.0)
    scores = errors / reach(similar.max(axis=1), surface.noise)
    of_class = np.array([class_of(*shape) for shape in shapes])
    return {name: conformal(_enough(scores, of_class == name)) for name in CLASSES}


def _enough(scores: FloatArray, chosen: npt.NDArray[np.bool_]) -> FloatArray:
    return scores[chosen] if chosen.sum() >= _FEWEST else scores
