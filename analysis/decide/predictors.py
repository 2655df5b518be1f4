"""Predicted time of an end-to-end run of any size N.

Within the measured sizes it follows the curve of the measured runs of the same implementation.
Break-even sizes are read from the same curves. Beyond the measured sizes, the time is the sum of
copies, kernel and overhead. The fitted parameters are read from tables (see
`analysis.decide.transfers` and `analysis.decide.curves`). This module imports only numpy and the
catalog, so that `python -m analysis advise` starts quickly.

Half-widths belong to 95 % prediction intervals, in natural logarithms of time.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from kernels.catalog.entries import VARIANTS
from kernels.catalog.product import Product
from kernels.catalog.variant import IN_TURN, SEQUENTIAL, Library
from kernels.products.shape import Shape

FloatArray = npt.NDArray[np.float64]
CsvRow = Mapping[str, str]
CsvRows = Iterable[CsvRow]

ELEMENT_BYTES = 4
# Parts of a run besides the kernel: number of latencies, number of matrices that move. No event
# covers the overhead.
MATRICES = {"h2d": (2, 2), "d2h": (1, 1), "overhead": (1, 3)}


@dataclass(frozen=True)
class Copies:
    """Time of consecutive copies: one latency each, plus all bytes over the bandwidth.

    Bytes beyond `knee_bytes` move at `beyond_bytes_per_s`; the knee is infinite without that term.
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
    beyond the measured sizes. `half_width` is the half-width of the measured times.
    """

    log_n: FloatArray
    log_s: FloatArray
    slopes: FloatArray
    outer: FloatArray
    between: float = 0.0
    beyond: float = 0.0
    half_width: float = 0.0

    def at(self, n: npt.ArrayLike) -> FloatArray:
        """Return log s at the sizes `n`, shape (len(n),) or (len(n), draws)."""
        return self._weights(n) @ np.concatenate([self.log_s, self.slopes, self.outer])

    def _weights(self, n: npt.ArrayLike) -> FloatArray:
        """Return the weights of `log_s`, `slopes` and `outer` at the sizes `n`.

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

    def half_width_at(self, n: float) -> float:
        """Return the half-width of the prediction interval at size `n`."""
        octave = self.between if self.covers(n) else self.beyond
        reach = float(self.reach(n)[0])
        return math.hypot(octave * reach if reach else 0.0, self.half_width)

    def covers(self, n: float) -> bool:
        """Return whether `n` is within the measured sizes."""
        low, high = np.exp(self.log_n[[0, -1]])
        return bool(low * (1 - 1e-9) <= n <= high * (1 + 1e-9))


def square(variant: str, number: int | None, n: int) -> Product:
    """Return a product of float32 matrices, with the `number` of a table as its block size."""
    return Product(variant, "float32", Shape.square(n), VARIANTS[variant].block_size(number))


def fill(product: Product, multiprocessors: int) -> float:
    """Return the factor by which a partly filled last wave of blocks prolongs a launch.

    It is the largest number of blocks on one multiprocessor over the mean (NVIDIA, Matrix
    Multiplication Background User's Guide, 2020, "wave quantization"). For a library's kernel,
    whose blocks are unknown, it is 1.
    """
    if product.kernel is None:
        return 1.0
    mean = product.launch.blocks / multiprocessors
    return math.ceil(mean) / mean


@dataclass(frozen=True)
class Prediction:
    """A time in seconds with its 95 % prediction interval and its parts."""

    time_s: float
    low_s: float
    high_s: float
    parts: Mapping[str, float]

    @property
    def half_width(self) -> float:
        """Half the interval's width in natural logarithms; infinite for an unbounded one."""
        return math.log(self.high_s / self.low_s) / 2 if self.low_s else math.inf


@dataclass(frozen=True)
class Kernel:
    """One variant with its block size.

    `curve` is the curve of its kernel time over `fill`, None if no model describes its runs
    (pieces, a graph, work on the host). `runs` is the curve of its end-to-end runs, None if it is
    never near the fastest. `again` is the curve of its kernel time over `fill` in further products
    of the same matrices, None if copies and kernel overlap or the host works.
    """

    variant: str
    block_size: int | None
    curve: Curve | None
    runs: Curve | None = None
    again: Curve | None = None

    @property
    def name(self) -> str:
        """The variant with its block size or tile shape: "block (B = 32)", "sgemm_top (64×32)"."""
        block = VARIANTS[self.variant].block_size(self.block_size)
        text = f"B = {block}" if isinstance(block, int) else str(block)
        return self.variant + (f" ({text})" if block is not None else "")

    @property
    def is_library(self) -> bool:
        """Whether a library provides the kernel."""
        return isinstance(VARIANTS[self.variant], Library)

    @cached_property
    def sizes(self) -> tuple[int, int]:
        """The smallest and the largest size of its curve."""
        return sizes(self.runs or self.curve)

    def divides(self, n: int) -> bool:
        """Return whether the tiles divide matrices of size `n`, as in the measured products."""
        return not square(self.variant, self.block_size, n).is_guarded


@dataclass(frozen=True)
class Predictor:
    """The fitted parameters of a GPU with one kind of host memory."""

    label: str
    name: str
    multiprocessors: int
    memory_bytes: int
    launch_s: float
    copies: Mapping[str, Copies]
    kernels: Sequence[Kernel]

    def predict(self, kernel: Kernel, n: int) -> Prediction:
        """Return the time of an end-to-end run, see the module.

        A sum has the parts copies in, kernel, copy back and overhead. They are assumed independent:
        the squares of their half-widths in seconds add up.
        """
        if self._follows_runs(kernel, n):
            assert kernel.runs
            widths = {"product": kernel.runs.half_width_at(n)}
        else:
            assert kernel.curve
            widths = {part: self.copies[part].half_width for part in MATRICES}
            widths["kernel"] = kernel.curve.half_width_at(n)
        return combined(self.parts(kernel, n), widths)

    def parts(self, kernel: Kernel, n: int) -> dict[str, float]:
        """Return the time of an end-to-end run in parts that are predicted independently."""
        if self._follows_runs(kernel, n):
            assert kernel.runs
            return {"product": math.exp(float(kernel.runs.at(n)[0]))}
        assert kernel.curve
        return self._copies_s(n) | {"kernel": self._kernel_s(kernel, kernel.curve, n)}

    def _follows_runs(self, kernel: Kernel, n: int) -> bool:
        return kernel.runs is not None and (kernel.curve is None or kernel.runs.covers(n))

    def further(self, kernel: Kernel, n: int) -> Prediction:
        """Return the time of each product of the same matrices after the first."""
        assert kernel.again
        parts = {"kernel": self.further_s(kernel, n)}
        return combined(parts, {"kernel": kernel.again.half_width_at(n)})

    def further_s(self, kernel: Kernel, n: int) -> float:
        """Return the time of `further` without its interval."""
        assert kernel.again
        return self._kernel_s(kernel, kernel.again, n)

    def split(self, kernel: Kernel, n: int) -> dict[str, float]:
        """Return the predicted time in parts, in seconds; empty if the parts overlap.

        Parts of a measured run are the parts of its sum, scaled to the time of the run.
        """
        if kernel.again is None:
            return {}
        parts = self._copies_s(n) | {"kernel": self._kernel_s(kernel, kernel.again, n)}
        scale = sum(self.parts(kernel, n).values()) / sum(parts.values())
        return {part: time_s * scale for part, time_s in parts.items()}

    def candidates(self, n: int) -> list[Kernel]:
        """Return the kernels with a prediction at size `n`, see `within_reach`."""
        reached = within_reach([kernel.sizes for kernel in self.kernels], n)
        return [self.kernels[at] for at in reached]

    def _copies_s(self, n: int) -> dict[str, float]:
        return {
            part: float(self.copies[part].time_s(copies, matrices * ELEMENT_BYTES * n**2))
            for part, (copies, matrices) in MATRICES.items()
        }

    def _kernel_s(self, kernel: Kernel, curve: Curve, n: int) -> float:
        stretch = fill(square(kernel.variant, kernel.block_size, n), self.multiprocessors)
        return max(math.exp(float(curve.at(n)[0])) * stretch, self.launch_s)


def sizes(curve: Curve | None) -> tuple[int, int]:
    """Return the smallest and the largest size of a curve."""
    assert curve
    least, largest = (round(math.exp(end)) for end in curve.log_n[[0, -1]])
    return least, largest


def common_sizes(ranges: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """Return the smallest and the largest size within all ranges."""
    leasts, largests = zip(*ranges, strict=True)
    return max(leasts), min(largests)


def within_reach(ranges: Sequence[tuple[int, int]], n: int) -> list[int]:
    """Return the positions of the ranges of sizes that contain `n`, or the nearest size of all.

    An implementation measured over a smaller range than others is not extrapolated: outside its
    range it could not be launched, takes too long, or was not selected.
    """
    nearest = max(n, min((least for least, _ in ranges), default=n))
    nearest = min(nearest, max((largest for _, largest in ranges), default=n))
    return [at for at, (least, largest) in enumerate(ranges) if least <= nearest <= largest]


def on_curve(curve: Curve, n: int, floor_s: float = 0.0) -> Prediction:
    """Return the time at size `n` of a curve, at least `floor_s`."""
    parts = {"product": max(math.exp(float(curve.at(n)[0])), floor_s)}
    return combined(parts, {"product": curve.half_width_at(n)})


def combined(parts: Mapping[str, float], widths: Mapping[str, float]) -> Prediction:
    """Return the sum of independent parts with its interval."""
    time_s = sum(parts.values())
    half = math.sqrt(sum((parts[name] * widths[name]) ** 2 for name in parts)) / time_s
    return Prediction(time_s, time_s * math.exp(-half), time_s * math.exp(half), parts)


def ratio(above: Prediction, below: Prediction) -> tuple[float, float, float]:
    """Return the ratio of two independent predicted times with its interval.

    The squares of the half-widths add up (Zou and Donner, Statistics in Medicine 27 (2008) 1693).
    """
    value = above.time_s / below.time_s
    half = math.hypot(above.half_width, below.half_width)
    return value, value * math.exp(-half), value * math.exp(half)


def curves(rows: CsvRows) -> list[tuple[CsvRow, Curve]]:
    """Return the curves in rows of curves.csv, each with its first row."""
    names = ("recording", "gpu", "quantity", "host_memory", "cpu_baseline")
    groups: dict[tuple[str, ...], list[CsvRow]] = {}
    for row in rows:
        key = tuple(row[name] for name in (*names, "variant", "block_size", "threads"))
        groups.setdefault(key, []).append(row)
    return [(own[0], _curve(own)) for own in groups.values()]


def _curve(rows: Sequence[CsvRow]) -> Curve:
    def column(name: str) -> FloatArray:
        return np.array([float(row[name]) for row in rows])

    return Curve(
        np.log(column("n")),
        np.log(column("filled_s")),
        column("slope"),
        np.array([float(rows[end]["outer_slope"]) for end in (0, -1)]),
        *(float(rows[0][f"half_width{part}"]) for part in ("_between", "_beyond", "")),
    )


def predictor(
    label: str, memory: str, gpus: CsvRows, transfers: CsvRows, rows: CsvRows
) -> Predictor | None:
    """Return the predictor of a GPU with one kind of host memory; None if it has no fit.

    `gpus`, `transfers` and `rows` are the rows of predictors.csv, transfers.csv and curves.csv.
    """
    own = next((row for row in gpus if row["gpu"] == label), None)
    fitted = {
        row["direction"]: row
        for row in transfers
        if (row["gpu"], row["host_memory"], row["used"]) == (label, memory, "True")
    }
    found: dict[str, dict[tuple[str, int | None], Curve]] = {"kernel": {}, "total": {}}
    for first, curve in curves(row for row in rows if row["gpu"] == label):
        if first["quantity"] == "kernel" or first["host_memory"] == memory:
            block = int(first["block_size"]) if first["block_size"] else None
            found[first["quantity"]][first["variant"], block] = curve
    modelled, again = (
        {name: c for name, c in found["kernel"].items() if VARIANTS[name[0]].flow in flows}
        for flows in ((IN_TURN,), SEQUENTIAL)
    )
    kernels = [
        Kernel(*name, modelled.get(name), found["total"].get(name), again.get(name))
        for name in dict.fromkeys([*modelled, *found["total"]])
    ]
    if own is None or not kernels or not set(MATRICES) <= set(fitted):
        return None
    return Predictor(
        label,
        own["gpu_name"],
        int(own["multiprocessors"]),
        int(own["memory_bytes"]),
        float(
            own["launch_s"] or min((math.exp(c.log_s.min()) for c in modelled.values()), default=0)
        ),
        {part: _copies(fitted[part]) for part in MATRICES},
        kernels,
    )


def _copies(row: CsvRow) -> Copies:
    return Copies(
        float(row["latency_s"]),
        float(row["bytes_per_s"] or math.inf),
        float(row["knee_bytes"] or math.inf),
        float(row["beyond_bytes_per_s"] or math.inf),
        float(row["half_width"]),
    )
