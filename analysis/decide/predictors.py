"""Predicting the time of an end-to-end run of any size N.

Within the measured sizes, the time follows the curve of the measured runs of the same
implementation. Break-even sizes are read from the same curves. Beyond the measured sizes, the time
is the sum of copies, kernel and overhead (see `analysis.decide.transfers` and
`analysis.decide.curves`). `analysis.decide.tabulated` writes the predictions to a table, which
`advise` and the page look up.

Half-widths are those of 95 % prediction intervals, in natural logarithms of time.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.data.cells import whole
from analysis.decide.lookup import ELEMENT_BYTES, square
from analysis.decide.surfaces import HIGHEST
from kernels.catalog.entries import VARIANTS
from kernels.catalog.product import Product
from kernels.catalog.variant import IN_TURN, SEQUENTIAL, Library

FloatArray = npt.NDArray[np.float64]

# Parts of a run besides the kernel: number of latencies, number of matrices that move. No event
# covers the overhead.
MATRICES = {"h2d": (2, 2), "d2h": (1, 1), "overhead": (1, 3)}


@dataclass(frozen=True)
class Copies:
    """The time of consecutive copies: one latency each, plus all bytes over the bandwidth.

    Bytes beyond `knee_bytes` move at `beyond_bytes_per_s`; without these, the knee is infinite.
    """

    latency_s: float
    bytes_per_s: float
    knee_bytes: float = math.inf
    beyond_bytes_per_s: float = math.inf
    half_width: float = 0.0

    def time_s(self, copies: int, size_bytes: npt.ArrayLike) -> FloatArray:
        """Return the time of `copies` copies with `size_bytes` in total."""
        size = np.asarray(size_bytes, float)
        beyond = np.maximum(size - self.knee_bytes, 0) / self.beyond_bytes_per_s
        near = np.minimum(size, self.knee_bytes) / self.bytes_per_s
        return np.asarray(copies * self.latency_s + near + beyond)


@dataclass(frozen=True)
class Curve:
    """log time over log N: a cubic between measured sizes, a straight line beyond them.

    Shapes: `log_n` (sizes,); `log_s` and `slopes` (d log s/d log N at the sizes) (sizes,) or
    (sizes, draws); `outer` (the slopes below and above) (2,) or (2, draws). `between` and `beyond`
    are the half-widths of the curve's error at a distance (`reach`) of one octave, between and
    beyond the measured sizes. `half_width` has the half-widths of the measured times, (sizes,) or
    one for all; between two sizes they are linear in log N.
    """

    log_n: FloatArray
    log_s: FloatArray
    slopes: FloatArray
    outer: FloatArray
    between: float = 0.0
    beyond: float = 0.0
    half_width: FloatArray | float = 0.0

    def at(self, n: npt.ArrayLike) -> FloatArray:
        """Return log s at the sizes `n`, shape (len(n),) or (len(n), draws)."""
        return self._weights(n) @ np.concatenate([self.log_s, self.slopes, self.outer])

    def _weights(self, n: npt.ArrayLike) -> FloatArray:
        """Return the weights by which `log_s`, `slopes` and `outer` give the curve at `n`.

        Between two sizes: the cubic Hermite interpolant. Shape: (len(n), 2·sizes + 2).
        """
        x = np.log(np.atleast_1d(np.asarray(n, float)))
        sizes, rows = len(self.log_n), np.arange(len(x))
        inside = np.clip(x, *self.log_n[[0, -1]])
        left = np.clip(np.searchsorted(self.log_n, inside) - 1, 0, sizes - 2)
        width = self.log_n[left + 1] - self.log_n[left]
        u = (inside - self.log_n[left]) / width
        weights = np.zeros((len(x), 2 * sizes + 2))
        weights[rows, left] = (1 - u) ** 2 * (1 + 2 * u)
        weights[rows, left + 1] = u**2 * (3 - 2 * u)
        weights[rows, sizes + left] = width * u * (1 - u) ** 2
        weights[rows, sizes + left + 1] = -width * u**2 * (1 - u)
        weights[:, -2:] = np.column_stack([x, x]) - inside[:, None]
        weights[x > inside, -2] = weights[x < inside, -1] = 0
        return weights

    def reach(self, n: npt.ArrayLike) -> FloatArray:
        """Return the distance of each of `n` from the measured sizes: 0 at one, 1 an octave beyond.

        Between two sizes, at distances a and b, it is the square root of a·b/(a + b). This is the
        standard deviation of a random walk tied at both ends (kriging with a linear variogram;
        Matheron, Economic Geology 58 (1963) 1246).
        """
        x = np.log(np.atleast_1d(np.asarray(n, float)))
        last = len(self.log_n) - 1
        right = np.clip(np.searchsorted(self.log_n, x), 0, last)
        left = np.clip(np.searchsorted(self.log_n, x, side="right") - 1, 0, last)
        before, after = np.abs(x - self.log_n[left]), np.abs(self.log_n[right] - x)
        inside = (x > self.log_n[0]) & (x < self.log_n[-1])
        both = np.maximum(before + after, 1e-300)
        distance = np.where(inside, before * after / both, np.minimum(before, after))
        return np.sqrt(distance / math.log(2))

    def predict(self, n: npt.ArrayLike) -> "Predictions":
        """Return the predicted times at the sizes `n`, with their half-widths."""
        octave, reach = np.where(self.covers(n), self.between, self.beyond), self.reach(n)
        error = np.multiply(octave, reach, where=reach > 0, out=np.zeros(len(reach)))
        measured = np.broadcast_to(self.half_width, len(self.log_n))
        of_times = np.interp(np.log(np.atleast_1d(np.asarray(n, float))), self.log_n, measured)
        return Predictions(np.exp(self.at(n)), np.hypot(error, of_times))

    def covers(self, n: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Return which of the sizes `n` are within the measured range."""
        low, high = np.exp(self.log_n[[0, -1]])
        sizes = np.atleast_1d(np.asarray(n, float))
        return (low * (1 - 1e-9) <= sizes) & (sizes <= high * (1 + 1e-9))

    @property
    def sizes(self) -> tuple[int, int]:
        """The smallest and the largest measured size."""
        least, largest = (round(math.exp(end)) for end in self.log_n[[0, -1]])
        return least, largest


def fill(product: Product, multiprocessors: int) -> float:
    """Return the factor by which an incomplete last wave of blocks prolongs a launch.

    It is the largest number of blocks on one multiprocessor over the mean (NVIDIA, Matrix
    Multiplication Background User's Guide, 2020, "wave quantization"). For a library's kernel,
    whose blocks are unknown, it is 1.
    """
    if product.kernel is None:
        return 1.0
    mean = product.launch.blocks / multiprocessors
    return math.ceil(mean) / mean


@dataclass(frozen=True)
class Predictions:
    """Predicted times in seconds, and the half-widths of their intervals: each (sizes,)."""

    time_s: FloatArray
    half_width: FloatArray

    @property
    def bounds(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The times, and the lower and upper ends of their intervals."""
        low_s, high_s = (self.time_s * np.exp(sign * self.half_width) for sign in (-1, 1))
        return self.time_s, low_s, high_s


@dataclass(frozen=True)
class Kernel:
    """An implementation on a GPU, with its curves.

    `runs`: the curve of end-to-end runs. `curve`: the curve of kernel times, if the model sums the
    parts of a run. `again`: the curve of kernel times, if a run can repeat the product.
    """

    variant: str
    block_size: int | None
    curve: Curve | None
    runs: Curve | None = None
    again: Curve | None = None

    @property
    def is_library(self) -> bool:
        """Whether a library provides the kernel."""
        return isinstance(VARIANTS[self.variant], Library)

    @cached_property
    def measured(self) -> Curve:
        """The curve that has the measured sizes."""
        found = self.runs or self.curve
        assert found
        return found


@dataclass(frozen=True)
class Predictor:
    """The fitted parameters of a GPU for one kind of host memory.

    `highest_flop_per_s`: the highest measured throughput of a kernel, in FP32 and on tensor cores.
    """

    multiprocessors: int
    launch_s: float
    copies: Mapping[str, Copies]
    kernels: Sequence[Kernel]
    highest_flop_per_s: tuple[float, float] = (math.inf, math.inf)

    def predict(self, kernel: Kernel, n: npt.ArrayLike) -> Predictions:
        """Return the predicted times of end-to-end runs of the sizes `n` (see the module).

        If the time is a sum, its parts are copies in, kernel, copy back and overhead. They are
        assumed independent, so the squares of their half-widths in seconds add up. Runs that
        overlap copies and kernel have no such sum. Their curve may follow the copies, so the kernel
        is a lower bound.
        """
        if kernel.curve is None:
            runs, (_, largest) = kernel.measured.predict(n), kernel.measured.sizes
            beyond = np.atleast_1d(n) > largest
            least_s = np.where(beyond, self._least_kernel_s(kernel, n) if beyond.any() else 0, 0)
            return Predictions(np.maximum(runs.time_s, least_s), runs.half_width)
        once = self._kernel(kernel, kernel.curve, n)
        parts = self._copies_s(n) | {"kernel": once.time_s}
        widths: dict[str, npt.ArrayLike] = {part: self.copies[part].half_width for part in MATRICES}
        summed = combined(parts, widths | {"kernel": once.half_width})
        if kernel.runs is None:
            return summed
        runs, is_measured = kernel.runs.predict(n), kernel.runs.covers(n)
        return Predictions(
            np.where(is_measured, runs.time_s, summed.time_s),
            np.where(is_measured, runs.half_width, summed.half_width),
        )

    def further(self, kernel: Kernel, n: npt.ArrayLike) -> Predictions:
        """Return the time of each product of the same matrices after the first."""
        assert kernel.again
        return self._kernel(kernel, kernel.again, n)

    def split(self, kernel: Kernel, n: npt.ArrayLike) -> dict[str, FloatArray]:
        """Return the predicted parts of the times, in seconds; empty if the parts overlap.

        For a measured size, the parts are those of the sum, scaled to the time of the run.
        """
        if kernel.again is None:
            return {}
        parts = self._copies_s(n) | {"kernel": self.further(kernel, n).time_s}
        scale = self.predict(kernel, n).time_s / sum(parts.values())
        return {part: time_s * scale for part, time_s in parts.items()}

    def _least_kernel_s(self, kernel: Kernel, n: npt.ArrayLike) -> FloatArray | float:
        """Return the time of the fastest kernel at the largest measured size.

        It is one of the kernels with the same arithmetic as `kernel`; 0 if there is none.
        """
        on_tensor_cores = VARIANTS[kernel.variant].tensor_cores
        alike = [
            (other.again.sizes[1], -other.again.log_s[-1], place)
            for place, other in enumerate(self.kernels)
            if other.again and VARIANTS[other.variant].tensor_cores == on_tensor_cores
        ]
        return self.further(self.kernels[max(alike)[-1]], n).time_s if alike else 0.0

    def _copies_s(self, n: npt.ArrayLike) -> dict[str, FloatArray]:
        matrix_bytes = ELEMENT_BYTES * np.atleast_1d(np.asarray(n, float)) ** 2
        return {
            part: self.copies[part].time_s(copies, matrices * matrix_bytes)
            for part, (copies, matrices) in MATRICES.items()
        }

    def _kernel(self, kernel: Kernel, curve: Curve, n: npt.ArrayLike) -> Predictions:
        """Return the predicted kernel times, which are never below the time of an empty kernel.

        Beyond the measured sizes, the throughput is at most the highest one measured with the same
        arithmetic, because a curve that still rises there would pass the peak of the GPU.
        """
        smooth, sizes = curve.predict(n), np.atleast_1d(np.asarray(n, float))
        highest = self.highest_flop_per_s[VARIANTS[kernel.variant].tensor_cores]
        least_s = np.where(sizes > curve.sizes[1], 2 * sizes**3 / highest, self.launch_s)
        time_s = smooth.time_s * self._fills(kernel, sizes)
        return Predictions(np.maximum(time_s, least_s), smooth.half_width)

    def _fills(self, kernel: Kernel, n: FloatArray) -> FloatArray:
        products = (square(kernel.variant, kernel.block_size, round(size)) for size in n)
        return np.array([fill(product, self.multiprocessors) for product in products])


def combined(parts: Mapping[str, FloatArray], widths: Mapping[str, npt.ArrayLike]) -> Predictions:
    """Return the sums of independent parts with their intervals."""
    time_s = np.sum(list(parts.values()), axis=0)
    squares = [(part_s * np.asarray(widths[part])) ** 2 for part, part_s in parts.items()]
    return Predictions(time_s, np.sqrt(np.sum(squares, axis=0)) / time_s)


def within_reach(ranges: Sequence[tuple[int, int]], n: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Return which ranges contain each of `n` or, if none does, the size nearest to it.

    The result has the shape (ranges, sizes). An implementation that was measured over a smaller
    range than others is not extrapolated, because outside its range it could not be launched, takes
    too long, or was not selected.
    """
    least, largest = np.array(ranges).T
    nearest = np.clip(np.atleast_1d(n), least.min(), largest.max())
    return (least[:, None] <= nearest) & (nearest <= largest[:, None])


def curves(rows: pd.DataFrame) -> list[tuple[pd.Series, Curve]]:
    """Return the curves of `analysis.decide.curves.curve_rows`, each with its first row."""
    names = ["recording", "gpu", "quantity", "host_memory", "cpu_baseline"]
    by = [*names, "variant", "block_size", "threads"]
    groups = rows.groupby(by, sort=False, dropna=False)
    return [(own.iloc[0], _curve(own)) for _, own in groups]


def _curve(rows: pd.DataFrame) -> Curve:
    column = {name: rows[name].to_numpy(dtype=float) for name in ("n", "filled_s", "slope")}
    return Curve(
        np.log(column["n"]),
        np.log(column["filled_s"]),
        column["slope"],
        rows["outer_slope"].to_numpy(dtype=float)[[0, -1]],
        float(rows.iloc[0]["half_width_between"]),
        float(rows.iloc[0]["half_width_beyond"]),
        rows["half_width"].to_numpy(dtype=float),
    )


def predictor(label: str, memory: str, fits: Mapping[str, pd.DataFrame]) -> Predictor | None:
    """Return the predictor of a GPU with one kind of host memory; None if it has no fit.

    `fits` contains the tables predictors and transfers, and the rows of `curve_rows`.
    """
    gpus, transfers, rows = (fits[name] for name in ("predictors", "transfers", "curves"))
    is_own = (transfers["gpu"] == label) & (transfers["host_memory"] == memory)
    used = transfers[is_own & transfers["used"]]
    copies = {str(row["direction"]): _copies(row) for _, row in used.iterrows()}
    found: dict[str, dict[tuple[str, int | None], Curve]] = {"kernel": {}, "total": {}}
    for first, curve in curves(rows[rows["gpu"] == label]):
        if first["quantity"] == "kernel" or first["host_memory"] == memory:
            found[first["quantity"]][first["variant"], whole(first["block_size"])] = curve
    modelled, again = (
        {name: c for name, c in found["kernel"].items() if VARIANTS[name[0]].flow in flows}
        for flows in ((IN_TURN,), SEQUENTIAL)
    )
    kernels = [
        Kernel(*name, modelled.get(name), found["total"].get(name), again.get(name))
        for name in dict.fromkeys([*modelled, *found["total"]])
    ]
    if not kernels or not set(MATRICES) <= set(copies):
        return None
    gpu = gpus[gpus["gpu"] == label].iloc[0]
    launch_s = gpu["launch_s"]
    if pd.isna(launch_s):
        launch_s = min((math.exp(c.log_s.min()) for c in modelled.values()), default=0)
    highest = (math.inf if pd.isna(gpu[name]) else float(gpu[name]) for name in HIGHEST)
    fp32, tensor = highest
    return Predictor(int(gpu["multiprocessors"]), float(launch_s), copies, kernels, (fp32, tensor))


def _copies(fit: pd.Series) -> Copies:
    """Return the copies described by a row of `transfers`; a missing part takes no time."""
    names = ("bytes_per_s", "knee_bytes", "beyond_bytes_per_s")
    parts = {name: math.inf if pd.isna(fit[name]) else float(fit[name]) for name in names}
    return Copies(float(fit["latency_s"]), half_width=float(fit["half_width"]), **parts)
