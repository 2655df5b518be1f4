"""What a run takes at any order: copies, kernel and overhead, each with what it may be off by.

Fitted numbers are read from tables (see `analysis.decide.transfers` and `analysis.decide.curves`).
Nothing here needs more than numpy and the catalog, so that `python -m analysis advise` answers at
once.

Half-widths are those of 95 % prediction intervals in natural logarithms of time.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from kernels.catalog.entries import VARIANTS
from kernels.products.shape import Shape

FloatArray = npt.NDArray[np.float64]
Row = Mapping[str, str]  # of a CSV table, as text

ELEMENT_BYTES = 4
# What a run takes beside its kernel: how many times a latency, and the matrices that move. Its
# overhead is what no event sees.
MATRICES = {"h2d": (2, 2), "d2h": (1, 1), "overhead": (1, 3)}


@dataclass(frozen=True)
class Copies:
    """Time of copies one after the other: latency each, bytes over bandwidth for all together.

    Bytes beyond `knee_bytes` move at `beyond_bytes_per_s` (an infinite knee: there are none).
    """

    latency_s: float
    bytes_per_s: float
    knee_bytes: float = math.inf
    beyond_bytes_per_s: float = math.inf
    half_width: float = 0.0

    def time_s(self, copies: int, size_bytes: npt.ArrayLike) -> FloatArray:
        """Return the time of `copies` copies with `size_bytes` in all."""
        size = np.asarray(size_bytes, float)
        beyond = np.maximum(size - self.knee_bytes, 0) / self.beyond_bytes_per_s
        near = np.minimum(size, self.knee_bytes) / self.bytes_per_s
        return np.asarray(copies * self.latency_s + near + beyond)


@dataclass(frozen=True)
class Curve:
    """log time over log n: a cubic between measured orders, a straight line beyond them.

    `log_n` has the shape (orders,), `log_s` and `slopes` (d log s/d log n at the orders) have
    (orders,) or (orders, draws), `outer` (the slopes below and above) has (2,) or (2, draws).
    `between` and `beyond` are what the curve may be off by at a distance of one octave (`reach`),
    between measured orders and beyond them, `half_width` what the measured times themselves may be.
    """

    log_n: FloatArray
    log_s: FloatArray
    slopes: FloatArray
    outer: FloatArray
    between: float = 0.0
    beyond: float = 0.0
    half_width: float = 0.0

    def at(self, n: npt.ArrayLike) -> FloatArray:
        """Return log s at the orders `n`, shape (len(n),) or (len(n), draws)."""
        return self._weights(n) @ np.concatenate([self.log_s, self.slopes, self.outer])

    def _weights(self, n: npt.ArrayLike) -> FloatArray:
        """Return the weights of `log_s`, `slopes` and `outer` at the orders `n`.

        Between two orders they are those of the cubic Hermite interpolant. Shape: (len(n),
        2·orders + 2).
        """
        x = np.log(np.atleast_1d(np.asarray(n, float)))
        orders, rows = len(self.log_n), np.arange(len(x))
        inside = np.clip(x, *self.log_n[[0, -1]])
        place = np.clip(np.searchsorted(self.log_n, inside) - 1, 0, orders - 2)
        width = self.log_n[place + 1] - self.log_n[place]
        u = (inside - self.log_n[place]) / width
        weights = np.zeros((len(x), 2 * orders + 2))
        weights[rows, place] = (1 - u) ** 2 * (1 + 2 * u)
        weights[rows, place + 1] = u**2 * (3 - 2 * u)
        weights[rows, orders + place] = width * u * (1 - u) ** 2
        weights[rows, orders + place + 1] = -width * u**2 * (1 - u)
        weights[:, -2:] = np.column_stack([x, x]) - inside[:, None]
        weights[x > inside, -2] = weights[x < inside, -1] = 0
        return weights

    def reach(self, n: npt.ArrayLike) -> FloatArray:
        """Return how far each of `n` is from the measured orders: 1 for one octave beyond the last.

        Between two of them, at distances a and b, it is the square root of a·b/(a + b): the spread
        of a random walk that is held at both (kriging with a linear variogram; Matheron, Economic
        Geology 58 (1963) 1246). It is 0 at a measured order.
        """
        x = np.log(np.atleast_1d(np.asarray(n, float)))
        last = len(self.log_n) - 1
        right = np.clip(np.searchsorted(self.log_n, x), 0, last)
        left = np.clip(np.searchsorted(self.log_n, x, side="right") - 1, 0, last)
        before, after = np.abs(x - self.log_n[left]), np.abs(self.log_n[right] - x)
        inside = (x > self.log_n[0]) & (x < self.log_n[-1])
        both = np.maximum(before + after, 1e-300)
        held = np.where(inside, before * after / both, np.minimum(before, after))
        return np.sqrt(held / math.log(2))

    def half_width_at(self, n: float) -> float:
        """Return the half-width of the prediction interval at order `n`."""
        octave = self.between if self.measures(n) else self.beyond
        reach = float(self.reach(n)[0])
        return math.hypot(octave * reach if reach else 0.0, self.half_width)

    def measures(self, n: float) -> bool:
        """Tell whether `n` is within the measured orders."""
        low, high = np.exp(self.log_n[[0, -1]])
        return bool(low * (1 - 1e-9) <= n <= high * (1 + 1e-9))


def fill(variant: str, block_size: int | None, n: int, multiprocessors: int) -> float:
    """Return by how much a launch takes longer for its last blocks not filling the GPU.

    Blocks are dealt out to the multiprocessors, and the launch ends with the one that has most:
    that many blocks over the mean (NVIDIA, Matrix Multiplication Background User's Guide, 2020,
    "wave quantization"). 1 for a library's kernel, whose blocks are not known.
    """
    entry = VARIANTS[variant]
    if entry.kernel is None:
        return 1.0
    blocks = math.prod(entry.launch(Shape.square(n), block_size).grid)
    mean = blocks / multiprocessors
    return math.ceil(mean) / mean


@dataclass(frozen=True)
class Prediction:
    """A time in seconds with its 95 % prediction interval, and the parts that it is made of."""

    time_s: float
    low_s: float
    high_s: float
    parts: Mapping[str, float]

    @property
    def half_width(self) -> float:
        """Half the interval's width in natural logarithms; infinite where nothing bounds it."""
        return math.log(self.high_s / self.low_s) / 2 if self.low_s else math.inf


@dataclass(frozen=True)
class Kernel:
    """One variant with its block size: `curve` is that of its time over `fill`."""

    variant: str
    block_size: int | None
    curve: Curve

    @property
    def name(self) -> str:
        """The variant with its block size: "block (B = 32)"."""
        return (
            self.variant if self.block_size is None else f"{self.variant} (B = {self.block_size})"
        )

    @property
    def is_library(self) -> bool:
        """Whether it is a library's, not one of this project."""
        return VARIANTS[self.variant].kernel is None

    @cached_property
    def orders(self) -> tuple[int, int]:
        """The least and the largest order of its curve."""
        least, largest = (round(math.exp(end)) for end in self.curve.log_n[[0, -1]])
        return least, largest

    def divides(self, n: int) -> bool:
        """Tell whether the tiles fit into matrices of order `n`, as in what was measured."""
        tile = VARIANTS[self.variant].tile(self.block_size or 0)
        return self.is_library or all(n % edge == 0 for edge in tile)


@dataclass(frozen=True)
class Predictor:
    """A GPU with one kind of host memory: all that a prediction on it needs."""

    label: str
    name: str
    multiprocessors: int
    memory_bytes: int
    launch_s: float
    copies: Mapping[str, Copies]
    kernels: Sequence[Kernel]

    def predict(self, kernel: Kernel, n: int) -> Prediction:
        """Return the time of a whole run: copies in, kernel, copy back, overhead.

        The parts' intervals are taken as independent: the squares of their half-widths in seconds
        add up.
        """
        parts = {
            part: float(self.copies[part].time_s(copies, matrices * ELEMENT_BYTES * n**2))
            for part, (copies, matrices) in MATRICES.items()
        }
        widths = {part: self.copies[part].half_width for part in MATRICES}
        stretch = fill(kernel.variant, kernel.block_size, n, self.multiprocessors)
        kernel_s = math.exp(float(kernel.curve.at(n)[0])) * stretch
        parts["kernel"] = max(kernel_s, self.launch_s)
        widths["kernel"] = kernel.curve.half_width_at(n)
        return combined(parts, widths)

    def candidates(self, n: int) -> list[Kernel]:
        """Return the kernels of which something is known at order `n`.

        One that was not measured so far up or down as others were could not be launched there,
        would have taken too long, or was not asked for: its curve is not drawn on to there.
        """
        least = min((kernel.orders[0] for kernel in self.kernels), default=0)
        largest = max((kernel.orders[1] for kernel in self.kernels), default=0)
        nearest = min(max(n, least), largest)
        return [k for k in self.kernels if k.orders[0] <= nearest <= k.orders[1]]

    def fastest(self, n: int, library: bool = False) -> tuple[Kernel, Prediction] | None:
        """Return the fastest kernel at order `n`: of this project, or of a library.

        Outside of the measured orders it is the one that is so at the nearest of them: where curves
        cross beyond what was measured, nobody knows.
        """
        ranked = [kernel for kernel in self.candidates(n) if kernel.is_library == library]
        least, largest = (
            pick((kernel.orders[end] for kernel in ranked), default=n)
            for pick, end in ((max, 0), (min, 1))
        )
        nearest = min(max(n, least), largest)
        best = min(ranked, key=lambda k: self.predict(k, nearest).time_s, default=None)
        return (best, self.predict(best, n)) if best else None


def combined(parts: Mapping[str, float], widths: Mapping[str, float]) -> Prediction:
    """Return the sum of independent parts with its interval."""
    time_s = sum(parts.values())
    half = math.sqrt(sum((parts[name] * widths[name]) ** 2 for name in parts)) / time_s
    return Prediction(time_s, time_s * math.exp(-half), time_s * math.exp(half), parts)


def ratio(above: Prediction, below: Prediction) -> tuple[float, float, float]:
    """Return the ratio of two predicted times with its interval.

    The two are independent, and the squares of their half-widths add up (Zou and Donner, Statistics
    in Medicine 27 (2008) 1693).
    """
    value = above.time_s / below.time_s
    half = math.hypot(above.half_width, below.half_width)
    return value, value * math.exp(-half), value * math.exp(half)


def curves(rows: Iterable[Row]) -> list[tuple[Row, Curve]]:
    """Return the curves in rows of curves.csv, each with its first row."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        key = tuple(
            row[name] for name in ("recording", "gpu", "cpu_baseline", "variant", "block_size")
        )
        groups.setdefault(key if not row["cpu_baseline"] else key[:3], []).append(row)
    return [(own[0], _curve(own)) for own in groups.values()]


def _curve(rows: Sequence[Row]) -> Curve:
    def column(name: str) -> FloatArray:
        return np.array([float(row[name]) for row in rows])

    return Curve(
        np.log(column("n")),
        np.log(column("filled_s")),
        column("slope"),
        np.array([float(rows[end]["outer_slope"]) for end in (0, -1)]),
        *(float(rows[0][f"half_width{of}"]) for of in ("_between", "_beyond", "")),
    )


def predictor(
    label: str, memory: str, known: Iterable[Row], transfers: Iterable[Row], rows: Iterable[Row]
) -> Predictor | None:
    """Return the predictor of a GPU with one kind of host memory; None: there is no fit of it.

    `known`, `transfers` and `rows` are those of predictors.csv, transfers.csv and curves.csv.
    """
    own = next((row for row in known if row["gpu"] == label), None)
    fitted = {
        row["direction"]: row
        for row in transfers
        if (row["gpu"], row["host_memory"], row["used"]) == (label, memory, "True")
    }
    kernels = [
        Kernel(first["variant"], _whole(first["block_size"]), curve)
        for first, curve in curves(row for row in rows if row["gpu"] == label)
    ]
    if own is None or not kernels or not set(MATRICES) <= set(fitted):
        return None
    return Predictor(
        label,
        own["gpu_name"],
        int(own["multiprocessors"]),
        int(own["memory_bytes"]),
        float(own["launch_s"] or 0),
        {part: _copies(fitted[part]) for part in MATRICES},
        kernels,
    )


def _copies(row: Row) -> Copies:
    return Copies(
        float(row["latency_s"]),
        float(row["bytes_per_s"]),
        float(row["knee_bytes"] or math.inf),
        float(row["beyond_bytes_per_s"] or math.inf),
        float(row["half_width"]),
    )


def _whole(text: str) -> int | None:
    return int(text) if text else None
