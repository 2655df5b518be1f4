"""Times of products of any shape, from the tables `surfaces`, `surface_nodes` and `batches`.

A surface gives the time of products of shape M×K · K×N. The time is a sum of physical terms, each
an amount (bytes, FMAs, …) times a fitted coefficient. The measured shapes are the nodes of the
surface; weighted correlations with them correct the log of the time. `report/shapes.js` computes
the same. This module imports no slow library; `analysis.decide.surface_fits` fits the surfaces.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from analysis.decide.lookup import ALIGNED, ELEMENT_BYTES, CsvRow
from kernels.catalog.entries import VARIANTS
from kernels.catalog.locations import LOCATIONS

FloatArray = npt.NDArray[np.float64]
# Seconds per run, per element of K, per byte of A and B, per byte of C, and per FMA: of the product
# and of full waves of blocks (`scheduled_fma`).
TERMS = ("latency_s", "k_s", "in_s_per_byte", "out_s_per_byte", "fma_s", "scheduled_fma_s")
IN, OUT = TERMS.index("in_s_per_byte"), TERMS.index("out_s_per_byte")
# Tile edges of a block, FMAs that take as long as an operand's load, and divisions of K.
TILES = ((256, 128), (128, 256), (128, 128), (128, 64), (64, 64))
LOAD_FMA, PIECES_OF_K = 16, (1, 4)
# Classes of shapes, each with prediction intervals from its own errors.
CLASSES = SQUARE, VECTOR, OTHER = ("square", "vector", "other")
FAR_OCTAVES = 3.0  # from the nearest measured shape: a time beyond is extrapolated
# Columns of the table predictors for strict FP32 and for tensor cores.
HIGHEST = ("fp32_flop_per_s", "tensor_flop_per_s")
LONG_S = 0.1  # kernels back to back reach only their sustained throughput from here
STREAMED = "pinned"  # the location whose products run over streams
_BATCH = ("issue_s", "alone_s", "latency_s", "duplex", "overlap", "half_width")
STEPS_PER_OCTAVE = 32  # grid of the search for a break-even size


@dataclass(frozen=True)
class Surface:
    """A time over shapes, which are the rows (m, n, k) of an array.

    `power` combines the terms: 1 if they are executed one after the other, 2 if they overlap.
    `location` says which matrices a run copies; without it, the terms use A, B and C, as for a
    kernel or a CPU. `nodes` are log2 of the measured edges, shape (nodes, 3). `octaves`: the length
    of the correlation, of which the share `size_share` depends only on the number of elements.
    `noise`: the variance of single shapes divided by that of the correction. `errors`: by class,
    half the width of the 95 % prediction interval where `reach` is 1. `session_share` and
    `session_s`: half-widths of the variation between sessions.
    """

    coefficients: FloatArray
    power: int
    multiprocessors: int
    location: str | None
    nodes: FloatArray
    weights: FloatArray
    octaves: float
    size_share: float
    noise: float
    errors: Mapping[str, float]
    session_share: float = 0.0
    session_s: float = 0.0

    def time_s(self, shapes: FloatArray, kernel_s: FloatArray | float = 0.0) -> FloatArray:
        """Return the times at `shapes`; for runs, `kernel_s` is the time of their kernel."""
        amount = amounts(shapes, self.location, self.multiprocessors)
        correction = self.similarity(shapes) @ self.weights
        terms_s = combined(amount * self.coefficients, self.power)
        return np.asarray((terms_s + kernel_s) * np.exp(correction))

    def half_width(self, shapes: FloatArray, time_s: FloatArray) -> FloatArray:
        """Return the half-widths of the prediction intervals, in logarithms."""
        errors = np.array([self.errors[class_of(*shape)] for shape in shapes])
        errors *= reach(self.similarity(shapes).max(axis=1), self.noise)
        squares = errors**2 + self.session_share**2 + (self.session_s / time_s) ** 2
        return np.asarray(np.sqrt(squares))

    def distances(self, shapes: FloatArray) -> FloatArray:
        """Return the distances from the measured shapes in octaves, (shapes, nodes)."""
        apart = np.log2(shapes)[:, None] - self.nodes
        return np.asarray(np.sqrt((apart**2).sum(axis=2)))

    def is_far(self, shape: FloatArray) -> bool:
        """Return whether a shape, (1, 3), is extrapolated: far from all nodes or longer."""
        is_longer = shape.max() > self.longest_edges[1]
        return bool(is_longer or self.distances(shape).min() > FAR_OCTAVES)

    def similarity(self, shapes: FloatArray) -> FloatArray:
        """Return the correlations with the measured shapes: (shapes, nodes)."""
        of_shape = correlation(self.distances(shapes), self.octaves)
        sizes = np.log2(elements(shapes))[:, None] - np.log2(elements(np.exp2(self.nodes)))
        of_size = correlation(np.abs(sizes), self.octaves)
        return np.asarray((1 - self.size_share) * of_shape + self.size_share * of_size)

    @property
    def longest_edges(self) -> tuple[int, int]:
        """The longest edges of the smallest and of the largest measured shape."""
        longest = np.exp2(self.nodes.max(axis=1))
        return round(longest.min()), round(longest.max())

    @property
    def has_shapes(self) -> bool:
        """Whether enough shapes that are not square were measured."""
        return int((np.ptp(self.nodes, axis=1) > 0).sum()) >= len(TERMS)


def amounts(shapes: FloatArray, location: str | None, multiprocessors: int) -> FloatArray:
    """Return the amount of each of `TERMS` at each shape: (shapes, terms)."""
    m, n, k = np.asarray(shapes, float).T
    moved = LOCATIONS[location] if location else LOCATIONS["pinned"]
    into = m * k * ("a" in moved.copied_in) + k * n * ("b" in moved.copied_in)
    out = m * n * moved.copies_out
    scheduled = scheduled_fma(m, n, k, multiprocessors) if multiprocessors else 0 * m
    sizes = (ELEMENT_BYTES * into, ELEMENT_BYTES * out)
    return np.column_stack([m**0, k, *sizes, m * n * k, scheduled])


def scheduled_fma(m: FloatArray, n: FloatArray, k: FloatArray, multiprocessors: int) -> FloatArray:
    """Return the FMAs of full waves of blocks: the least over usual tiles and divisions of K.

    The minimum is used because libraries choose a tile for each shape without reporting it. Small
    tiles load more operands per FMA; a load counts as `LOAD_FMA` FMAs.
    """
    least = np.full(np.shape(m), np.inf)
    for rows, columns in TILES:
        blocks = np.ceil(m / rows) * np.ceil(n / columns)
        per_wave = multiprocessors * (rows * columns + LOAD_FMA * (rows + columns)) * k
        for pieces in PIECES_OF_K:
            waves = np.ceil(blocks * pieces / multiprocessors) / pieces
            least = np.minimum(least, waves * per_wave)
    return least


def combined(terms_s: FloatArray, power: int) -> FloatArray:
    """Return the combined time of terms (…, terms): the `power`-th root of their powers' sum."""
    return np.asarray((terms_s**power).sum(axis=-1) ** (1 / power))


def correlation(distances: FloatArray, octaves: float) -> FloatArray:
    """Return Matérn's correlation with ν = 3/2 at distances in octaves."""
    scaled = math.sqrt(3) * distances / octaves
    return np.asarray((1 + scaled) * np.exp(-scaled))


def reach(nearest: FloatArray, noise: float) -> FloatArray:
    """Return the standard deviation of a correction that only the most similar shape determines.

    `nearest` is the correlation with this shape. The unit is that without any shape.
    """
    return np.asarray(np.sqrt(noise + 1 - nearest**2))


def elements(shapes: FloatArray) -> FloatArray:
    """Return the number of elements of A, B and C at each shape."""
    m, n, k = np.asarray(shapes, float).T
    return np.asarray(m * k + k * n + m * n)


def class_of(m: float, n: float, k: float) -> str:
    """Return the class to which a shape belongs, for the errors of its predictions."""
    if m == n == k:
        return SQUARE
    return VECTOR if min(m, n) == 1 else OTHER


@dataclass(frozen=True)
class Batch:
    """How long one more product takes in a batch of products over a number of streams.

    The host needs `issue_s` to issue its copies and kernels. The copies take `latency_s`, the
    longer direction, and the share 1 − `duplex` of the shorter direction. Of copies and kernel, a
    product takes the longer one and the share 1 − `overlap` of the shorter one. A stream has one
    product at a time, which takes `alone_s`, its copies and its kernel. `half_width` is that of a
    95 % prediction interval.
    """

    issue_s: float
    alone_s: float
    latency_s: float
    duplex: float
    overlap: float
    half_width: float

    def copies_s(self, in_s: FloatArray, out_s: FloatArray, streams: FloatArray) -> FloatArray:
        """Return the time of a product's copies; `in_s` and `out_s` exclude latency."""
        together_s = self.latency_s + _overlapped(in_s, out_s, self.duplex)
        return np.maximum(together_s, (self.alone_s + in_s + out_s) / streams)

    def product_s(
        self, in_s: FloatArray, out_s: FloatArray, kernel_s: FloatArray, streams: FloatArray
    ) -> FloatArray:
        """Return the time by which one more product prolongs a batch."""
        alone_s = self.alone_s + in_s + out_s + kernel_s
        together_s = _overlapped(self.copies_s(in_s, out_s, streams), kernel_s, self.overlap)
        return np.maximum(np.maximum(together_s, alone_s / streams), self.issue_s)


def _overlapped(one: FloatArray, other: FloatArray, share: float) -> FloatArray:
    return np.asarray(np.maximum(one, other) + (1 - share) * np.minimum(one, other))


@dataclass(frozen=True)
class Run:
    """What is run: location of the matrices, number of products, and streams.

    The products have the same A, which is copied once, or are `independent`.
    """

    location: str
    products: int = 1
    streams: int = 1
    independent: bool = False

    def moved(self, shapes: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the bytes that each product after the first moves to and from the GPU."""
        into, out = amounts(shapes, self.location, 0)[:, [IN, OUT]].T
        if not self.independent and "a" in LOCATIONS[self.location].copied_in:
            into = into - ELEMENT_BYTES * shapes[:, 0] * shapes[:, 2]
        return into, out


@dataclass(frozen=True)
class Shaped:
    """An implementation on a GPU: the surfaces of its kernel, and of its runs by location."""

    variant: str
    kernel: Surface
    runs: Mapping[str, Surface]
    batch: Batch | None
    limit: "Limit"

    def predict(self, shapes: FloatArray, run: Run) -> tuple[FloatArray, FloatArray]:
        """Return times in s and half-widths at `shapes`; `limit` bounds the throughput."""
        whole, flop = self.runs[run.location], 2 * np.asarray(shapes, float).prod(axis=1)
        kernel_s = np.maximum(self.kernel.time_s(shapes), flop / self.limit.flop_per_s)
        first_s = whole.time_s(shapes, kernel_s)
        width = whole.half_width(shapes, first_s)
        if run.products > 1:
            one_more_s, of_more = self._one_more(shapes, run, kernel_s)
            more_s = (run.products - 1) * one_more_s
            width = np.hypot(first_s * width, more_s * of_more) / (first_s + more_s)
            first_s = first_s + more_s
        return np.maximum(first_s, self.limit.sustained_s(run.products * kernel_s)), width

    def _one_more(
        self, shapes: FloatArray, run: Run, kernel_s: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the time of each product after the first, and its half-width.

        If fewer matrices are copied from pinned memory, the batches are assumed to be the same; if
        none is copied, kernels follow each other as fast as the host launches them. Without
        measured batches, the products are assumed to run one after the other.
        """
        place = LOCATIONS[run.location]
        whole, (in_bytes, out_bytes) = self.runs[run.location], run.moved(shapes)
        in_s, out_s = in_bytes * whole.coefficients[IN], out_bytes * whole.coefficients[OUT]
        batch = self.batch if place.memory == LOCATIONS[STREAMED].memory else None
        if batch is None:
            time_s = whole.coefficients[0] + in_s + out_s + kernel_s
            return time_s, whole.half_width(shapes, time_s)
        if not place.has_copies:
            time_s = np.maximum(kernel_s, batch.issue_s)
            return time_s, np.hypot(batch.half_width, self.kernel.half_width(shapes, kernel_s))
        streams = np.array([run.streams])
        time_s = batch.product_s(in_s, out_s, kernel_s, streams)
        longer = kernel_s > batch.copies_s(in_s, out_s, streams)
        slope = np.where(longer, 1.0, max(1 - batch.overlap, 1 / run.streams))
        slope = np.where(time_s > batch.issue_s, slope, 0.0)
        of_kernel = slope * kernel_s / time_s * self.kernel.half_width(shapes, kernel_s)
        return time_s, np.hypot(batch.half_width, of_kernel)


@dataclass(frozen=True)
class OnCpu:
    """A baseline of a CPU: its surface, and the fastest implementation at each node."""

    surface: Surface
    implementations: Sequence[str]

    def predict(self, shapes: FloatArray, run: Run) -> tuple[FloatArray, FloatArray]:
        """Return the times in s, and half-widths, of products at `shapes`, one after the other."""
        time_s = self.surface.time_s(shapes)
        return run.products * time_s, self.surface.half_width(shapes, time_s)

    @property
    def longest_edges(self) -> tuple[int, int]:
        """The longest edges of the smallest and of the largest measured shape."""
        return self.surface.longest_edges

    def name(self, shapes: FloatArray) -> str:
        """Return the fastest implementation at the node nearest to the first of `shapes`."""
        return self.implementations[int(self.surface.distances(shapes)[0].argmin())]


def scaled(shape: FloatArray, sizes: FloatArray) -> FloatArray:
    """Return shapes with the proportions of `shape`, (3,), and longest edges `sizes`; (n, 3)."""
    edges = np.maximum(np.floor(np.outer(sizes, shape / shape.max()) + 0.5), 1)
    return np.where(shape == 1, 1, edges)  # an edge of 1 stays 1, as in a vector


def break_even_row(
    shape: FloatArray,
    gpu: Callable[[FloatArray], tuple[FloatArray, FloatArray]],
    cpu: Callable[[FloatArray], tuple[FloatArray, FloatArray]],
    ranges: Sequence[tuple[int, int]],
) -> dict[str, str]:
    """Return the break-even size of products with the proportions of a shape, as in break_even.csv.

    A size is the longest edge; only sizes within all of the measured `ranges` count. `gpu` and
    `cpu` return times in s and half-widths; the interval has the sizes that these leave undecided.
    """
    least, largest = max(low for low, _ in ranges), min(high for _, high in ranges)

    def last_slower(sizes: FloatArray, widths: int) -> int:
        shapes = scaled(shape, sizes)
        (gpu_s, gpu_half), (cpu_s, cpu_half) = gpu(shapes), cpu(shapes)
        half = widths * np.minimum(np.hypot(gpu_half, cpu_half), 700.0)  # exp(710) overflows
        slower = np.flatnonzero(gpu_s * np.exp(half) >= cpu_s)
        return int(slower[-1]) if len(slower) else -1

    def fastest_from(widths: int) -> float:
        if (place := last_slower(grid, widths)) in (-1, len(grid) - 1):
            return 0.0 if place < 0 else math.inf
        between = np.arange(grid[place], grid[place + 1])
        return float(between[last_slower(between, widths)] + 1)

    count = math.ceil(STEPS_PER_OCTAVE * math.log2(largest / least)) + 1
    grid = np.unique(np.floor(np.geomspace(least, largest, count) + 0.5))
    sizes = {"n": fastest_from(0), "n_low": fastest_from(-1), "n_high": fastest_from(1)}
    location = {0.0: "below", math.inf: "above"}.get(sizes["n"], "measured")
    row = {"location": location, "least_n": str(least), "largest_n": str(largest)}
    return row | {k: f"{n:.0f}" if location == "measured" else "" for k, n in sizes.items()}


@dataclass(frozen=True)
class Limit:
    """Limit of a GPU's kernels with one arithmetic: the highest throughput measured.

    Kernels that run for longer than `LONG_S` reach only a share of it, because power lowers the
    clock; the share is the least that was measured in sustained launches. At sizes that are not
    multiples of `ALIGNED`, kernel times have an error of `unaligned_half_width` in logarithms,
    except at the sizes `unaligned`, which were measured.
    """

    flop_per_s: float = math.inf
    sustained_share: float = 1.0
    unaligned_half_width: float = 0.0
    unaligned: frozenset[int] = frozenset()

    def sustained_s(self, kernels_s: FloatArray | float) -> FloatArray:
        """Return the time that kernels take back to back."""
        return np.where(np.asarray(kernels_s) > LONG_S, kernels_s / self.sustained_share, kernels_s)

    def is_unaligned(self, n: int) -> bool:
        """Return whether square matrices of size `n` are not aligned and were not measured."""
        return n % ALIGNED > 0 and n not in self.unaligned

    def half_width(self, kernel_share: float) -> float:
        """Return the half-width that an unaligned size adds to runs with this share of kernels."""
        return math.log1p(min(kernel_share, 1.0) * math.expm1(self.unaligned_half_width))


def limits(tables: Mapping[str, Sequence[CsvRow]], gpu: str) -> dict[bool, Limit]:
    """Return the limits of a GPU: False for strict FP32, True for tensor cores."""
    rows = [row for row in tables.get("predictors", ()) if row["gpu"] == gpu]
    of_gpu = rows[0] if rows else {}
    rates = [of_gpu.get(name, "") for name in HIGHEST]
    unaligned = frozenset(map(int, of_gpu.get("unaligned_sizes", "").split()))
    error = float(of_gpu.get("unaligned_half_width") or 0)
    shares: dict[bool, list[float]] = {False: [], True: []}
    for row in tables.get("sustained", ()):
        if row["gpu"] == gpu and row["variant"] in VARIANTS:
            tensor_cores = VARIANTS[row["variant"]].tensor_cores
            shares[tensor_cores].append(float(row["sustained_share"]))
    return {
        bool(at): Limit(
            float(rate) if rate else math.inf, min([1.0, *shares[bool(at)]]), error, unaligned
        )
        for at, rate in enumerate(rates)
    }


class Surfaces:
    """All surfaces: the rows of the three tables by name of the surface."""

    def __init__(self, tables: Mapping[str, Sequence[CsvRow]]) -> None:
        self._rows, self._batches = tables["surfaces"], tables["batches"]
        self._tables = tables
        self._nodes: dict[str, list[CsvRow]] = defaultdict(list)
        for node in tables["surface_nodes"]:
            self._nodes[node["surface"]].append(node)

    def on_gpu(self, gpu: str) -> list[Shaped]:
        """Return the implementations of a GPU."""
        of_gpu = [row for row in self._rows if row["gpu"] == gpu]
        batches = {
            row["variant"]: Batch(*(float(row[name]) for name in _BATCH))
            for row in self._batches
            if row["gpu"] == gpu
        }
        implementations, by_arithmetic = [], limits(self._tables, gpu)
        for kernel in (row for row in of_gpu if not row["host_memory"]):
            name = kernel["variant"]
            runs = {
                row["host_memory"]: self._surface(row)
                for row in of_gpu
                if row["variant"] == name and row["host_memory"]
            }
            limit = by_arithmetic[VARIANTS[name].tensor_cores]
            one = Shaped(name, self._surface(kernel), runs, batches.get(name), limit)
            implementations.append(one)
        return implementations

    def on_cpu(self, recording: str) -> dict[str, OnCpu]:
        """Return the baselines of a recording's CPU by name."""
        return {
            row["cpu_baseline"]: OnCpu(
                self._surface(row), [fastest(node) for node in self._nodes[row["surface"]]]
            )
            for row in self._rows
            if row["recording"] == recording and row["cpu_baseline"]
        }

    def _surface(self, row: CsvRow) -> Surface:
        nodes = self._nodes[row["surface"]]
        edges = [[float(node[edge]) for edge in "mnk"] for node in nodes]
        return Surface(
            np.array([float(row[term]) for term in TERMS]),
            int(row["power"]),
            int(row["multiprocessors"] or 0),
            row["host_memory"] or None,
            np.log2(edges),
            np.array([float(node["weight"]) for node in nodes]),
            float(row["octaves"]),
            float(row["size_share"]),
            float(row["noise"]),
            {name: float(row[f"{name}_error"]) for name in CLASSES},
            float(row["session_share"]),
            float(row["session_s"]),
        )


def fastest(node: Mapping[str, Any]) -> str:
    """Return the implementation that a node of a CPU's surface names, with its threads."""
    count = int(node["threads"])
    return f"{node['variant']}, {count} thread{'s' * (count > 1)}"
