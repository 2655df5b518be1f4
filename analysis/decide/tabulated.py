"""Predicted times on a grid of sizes: the table that `advise` and the page's calculator look up.

Between two sizes of the table, log time is interpolated linearly over log N. Measured and held-out
sizes are in the grid, so only times between them differ from `analysis.decide.predictors`.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pandas as pd

from analysis.data.frames import from_rows
from analysis.data.recordings import MeasuredSource, with_gpu
from analysis.decide.predictors import (
    CsvRow,
    Curve,
    Kernel,
    Prediction,
    Predictor,
    common_sizes,
    curves,
    fill,
    on_curve,
    predictor,
    sizes,
    square,
    within_reach,
)
from analysis.schema import bounded
from kernels.catalog.baselines import CPU_BASELINES
from kernels.catalog.product import Product
from kernels.products.shape import LARGEST_SIZE

PER_OCTAVE = 4  # sizes of the grid
LARGEST_STEP = 0.02  # relative, of a kernel time between sizes
SHOWN = 700  # the size that the page's calculator shows first
# Numbers of products at which a row's implementation may be the fastest.
PRODUCTS = (1, 2, 3, 5, 10, 30, 100, 1000, 10**6)


def predicted_times_table(
    found: list[MeasuredSource], texts: Mapping[str, Sequence[CsvRow]]
) -> pd.DataFrame:
    """Return predicted end-to-end times of the implementations that can be the fastest.

    On a GPU (`gpu`, `host_memory`): the fastest of this study and of libraries, for any number of
    products of the same matrices. further_s: time of each product after the first, blank if copies
    and kernel overlap; h2d_s to overhead_s: time_s in parts. On a CPU (`cpu_baseline`): the fastest
    implementation of each baseline. A time shorter than any measured on that CPU is no row.
    least_n, largest_n: measured sizes of the implementation. candidates: implementations compared.
    """
    rows: list[dict[str, object]] = []
    for source in with_gpu(found):
        for memory in ("pinned", "pageable"):
            gpu = predictor(source.label, memory, *texts.values())
            if gpu:
                key = {"gpu": gpu.label, "host_memory": memory}
                rows += [key | row for row in _on_gpu(gpu, source.holdout_sizes)]
    on_cpu = [row for row in texts["curves"] if row["cpu_baseline"]]
    for recording in dict.fromkeys(row["recording"] for row in on_cpu):
        own = [row for row in on_cpu if row["recording"] == recording]
        rows += [{"recording": recording} | row for row in _on_cpu(curves(own))]
    return from_rows("predicted_times", rows)


def grid(measured: Iterable[int]) -> list[int]:
    """Return the sizes of the grid, with the measured ones."""
    steps = range(math.ceil(PER_OCTAVE * math.log2(LARGEST_SIZE)))
    return sorted(
        {*(round(2 ** (step / PER_OCTAVE)) for step in steps), SHOWN, LARGEST_SIZE, *measured}
    )


def _on_gpu(gpu: Predictor, held_out: Iterable[int]) -> Iterator[dict[str, object]]:
    """Yield the rows of a GPU with one kind of host memory.

    An implementation that is the fastest at one size of the grid also has a row at the next ones.
    """
    own_curves = [kernel.runs or kernel.curve for kernel in gpu.kernels]
    measured = {round(math.exp(x)) for curve in own_curves if curve for x in curve.log_n}
    ends = {max(min(measured) - 1, 1), max(measured) + 1}  # beyond, intervals are wider
    grid_sizes = grid({*measured, *held_out, *ends})
    fastest = _Fastest(gpu)
    places = [fastest.at(n) for n in grid_sizes]
    before: tuple[int, set[int]] | None = None  # the size before, and its rows
    for at, n in enumerate(grid_sizes):
        reached = within_reach([kernel.sizes for kernel in gpu.kernels], n)
        near = set[int]().union(*places[max(at - 1, 0) : at + 2]).intersection(reached)
        common = [gpu.kernels[place] for place in sorted(near & before[1])] if before else []
        for size in _steps(gpu, common, before[0] if before else n, n):
            yield from _rows_on_gpu(gpu, common, size, len(reached))
        kernels = [gpu.kernels[place] for place in sorted(near)]
        yield from _rows_on_gpu(gpu, kernels, n, len(reached))
        before = n, near


def _steps(gpu: Predictor, kernels: Sequence[Kernel], low: int, high: int) -> list[int]:
    """Return the sizes between two of the grid where one more tile prolongs a launch by a step."""
    found: set[int] = set()
    for kernel in (one for one in kernels if one.again or one.curve):
        for edge in {*square(kernel.variant, kernel.block_size, low).tile[:2]}:
            for n in range(math.ceil(low / edge) * edge, high, edge):
                pair = [square(kernel.variant, kernel.block_size, size) for size in (n, n + 1)]
                fills = [fill(product, gpu.multiprocessors) for product in pair]
                if abs(math.log(fills[1] / fills[0])) > LARGEST_STEP:
                    found.update((n, n + 1))
                if _waves(pair[0], gpu.multiprocessors) > 1 / LARGEST_STEP:
                    break  # later steps are smaller
    return sorted(found - {low, high})


def _waves(product: Product, multiprocessors: int) -> float:
    return product.launch.blocks / multiprocessors if product.kernel else math.inf


def _rows_on_gpu(
    gpu: Predictor, kernels: Iterable[Kernel], n: int, candidates: int
) -> Iterator[dict[str, object]]:
    for kernel in kernels:
        yield {"n": n, "candidates": candidates, **_row_on_gpu(gpu, kernel, n)}


class _Fastest:
    """The kernels of a GPU that are the fastest at a size, by their places in `gpu.kernels`."""

    def __init__(self, gpu: Predictor) -> None:
        self._gpu = gpu
        self._times: dict[tuple[int, int], tuple[float, float]] = {}

    def at(self, n: int) -> set[int]:
        """Return the fastest of this study and of libraries for any of `PRODUCTS`.

        Beyond the measured sizes, they are the fastest at the nearest measured size, because
        extrapolated curves may cross.
        """
        places = set()
        both = (False, True)
        candidates = {key: self._candidates(n, *key) for key in itertools.product(both, both)}
        for is_library, products in itertools.product(both, PRODUCTS):
            ranked = candidates[is_library, products > 1]
            if ranked:
                least, largest = common_sizes(self._gpu.kernels[at].sizes for at in ranked)
                nearest = min(max(n, least), largest)
                times = ((self._time_s(at, nearest, products), at) for at in ranked)
                places.add(min(times)[1])
        return places

    def _candidates(self, n: int, is_library: bool, is_repeated: bool) -> list[int]:
        kernels = list(enumerate(self._gpu.kernels))
        usable = [pair for pair in kernels if pair[1].again or not is_repeated]
        reached = within_reach([kernel.sizes for _, kernel in usable], n)
        return [usable[at][0] for at in reached if usable[at][1].is_library == is_library]

    def _time_s(self, place: int, n: int, products: int) -> float:
        kernel = self._gpu.kernels[place]
        if (place, n) not in self._times:
            further_s = self._gpu.further_s(kernel, n) if kernel.again else 0.0
            self._times[place, n] = sum(self._gpu.parts(kernel, n).values()), further_s
        first_s, further_s = self._times[place, n]
        return first_s + (products - 1) * further_s


def _row_on_gpu(gpu: Predictor, kernel: Kernel, n: int) -> dict[str, object]:
    least, largest = kernel.sizes
    row: dict[str, object] = {"variant": kernel.variant, "block_size": kernel.block_size}
    row |= {"least_n": least, "largest_n": largest, **_bounded("time_s", gpu.predict(kernel, n))}
    if kernel.again:
        row |= _bounded("further_s", gpu.further(kernel, n))
        row |= {f"{part}_s": time_s for part, time_s in gpu.split(kernel, n).items()}
    return row


def _bounded(name: str, predicted: Prediction) -> dict[str, object]:
    return bounded(name, predicted.time_s, predicted.low_s, predicted.high_s)


def _on_cpu(implementations: list[tuple[CsvRow, Curve]]) -> Iterator[dict[str, object]]:
    """Yield the rows of a host's CPU, in the sequence of `CPU_BASELINES`."""
    shortest_s = min(math.exp(curve.log_s.min()) for _, curve in implementations)
    for baseline in CPU_BASELINES:
        own = [pair for pair in implementations if pair[0]["cpu_baseline"] == baseline]
        for n, places, candidates in _fastest_on_cpu(own, shortest_s):
            for first, curve in (own[place] for place in places):
                block = int(first["block_size"]) if first["block_size"] else None
                row = {"cpu_baseline": baseline, "variant": first["variant"], "block_size": block}
                least, largest = sizes(curve)
                row |= {"n": n, "candidates": candidates, "least_n": least, "largest_n": largest}
                yield row | _bounded("time_s", on_curve(curve, n))


def _fastest_on_cpu(
    own: Sequence[tuple[CsvRow, Curve]], shortest_s: float
) -> Iterator[tuple[int, list[int], int]]:
    """Yield size, places of the fastest implementations there and nearby, number of candidates.

    Sizes whose time would be shorter than any measured time are left out.
    """
    ranges = [sizes(curve) for _, curve in own]
    grid_sizes = grid(round(math.exp(x)) for _, curve in own for x in curve.log_n)
    reached = [within_reach(ranges, n) for n in grid_sizes]
    fastest = [
        min(((on_curve(own[place][1], n).time_s, place) for place in places), default=None)
        for n, places in zip(grid_sizes, reached, strict=True)
    ]
    for at, n in enumerate(grid_sizes):
        near = {pair[1] for pair in fastest[max(at - 1, 0) : at + 2] if pair}
        best = fastest[at]
        # The shortest measured time itself differs by rounding.
        if best and best[0] >= shortest_s * (1 - 1e-9):
            yield n, sorted(near.intersection(reached[at])), len(reached[at])
