"""Predicted times on a grid of sizes, in the table that `advise` and the page look up.

Measured sizes and break-even sizes are in the grid, so that only times between them differ from
`analysis.decide.predictors`. `analysis.decide.lookup` interpolates.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.data.frames import stacked
from analysis.data.recordings import MeasuredSource, with_gpu
from analysis.decide.lookup import square
from analysis.decide.predictors import (
    FloatArray,
    Kernel,
    Predictions,
    Predictor,
    curves,
    fill,
    predictor,
    within_reach,
)
from analysis.schema import bounded
from kernels.catalog.entries import VARIANTS
from kernels.catalog.product import Product
from kernels.products.shape import LARGEST_SIZE

PER_OCTAVE = 4  # sizes of the grid per octave
LARGEST_STEP = 0.02  # largest relative change of a kernel time between two sizes
SHOWN = 700  # the size that the page's calculator shows first
Flags = npt.NDArray[np.bool_]
Sizes = npt.NDArray[np.int64]


def predicted_times_table(
    found: list[MeasuredSource], fits: Mapping[str, pd.DataFrame]
) -> pd.DataFrame:
    """Return one row per implementation and size: its predicted end-to-end time.

    `fits` contains what `predictor` needs, and the table break_even. Rows of a GPU (`gpu`,
    `host_memory`) are the implementations of this study and of libraries that can be the fastest.
    h2d_s to overhead_s: the parts of time_s, blank if copies and kernel overlap. Rows without
    interval complete the page's explorer with other variants in their fastest block sizes. Rows of
    a CPU (`cpu_baseline`) are the fastest implementation of each baseline; times shorter than any
    measured on that CPU are omitted. least_n, largest_n: measured sizes of the implementation.
    candidates: implementations compared.
    """
    frames = []
    for source in with_gpu(found):
        for memory in ("pinned", "pageable"):
            if gpu := predictor(source.label, memory, fits):
                key = {"gpu": source.label, "host_memory": memory}
                crossed = _break_even_sizes(fits, **key)
                frame = pd.concat(_on_gpu(gpu, crossed))
                frames.append(frame.sort_values("n", kind="stable").assign(**key))
    on_cpu = fits["curves"].dropna(subset="cpu_baseline")
    for (recording, baseline), rows in on_cpu.groupby(["recording", "cpu_baseline"], sort=False):
        key = {"recording": recording, "cpu_baseline": baseline}
        others = on_cpu.loc[on_cpu["recording"] == recording, "time_s"]
        frame = _on_cpu(rows, others.min(), _break_even_sizes(fits, **key))
        frames.append(frame.assign(**key))
    return stacked("predicted_times", frames)


def _break_even_sizes(fits: Mapping[str, pd.DataFrame], **key: object) -> set[int]:
    """Return the break-even sizes of this study's kernels, and the sizes one below each.

    In the grid, they keep interpolated times from contradicting the break-even size.
    """
    rows = fits["break_even"]
    rows = rows[(rows["kernels"] == "study") & rows["n"].notna()]
    rows = rows[np.logical_and.reduce([rows[name] == value for name, value in key.items()])]
    return {int(n) - below for n in rows["n"] for below in (0, 1)}


def grid(others: Iterable[int]) -> Sizes:
    """Return the sizes of the grid, including `others`."""
    steps = range(math.ceil(PER_OCTAVE * math.log2(LARGEST_SIZE)))
    even = {round(2 ** (step / PER_OCTAVE)) for step in steps}
    return np.array(sorted({*even, SHOWN, LARGEST_SIZE, *others}))


def _on_gpu(gpu: Predictor, crossed: set[int]) -> Iterator[pd.DataFrame]:
    """Yield the rows of each implementation on a GPU with one kind of host memory."""
    measured = {round(math.exp(x)) for kernel in gpu.kernels for x in kernel.measured.log_n}
    least, largest = min(measured), max(measured)
    shown = {*measured, 2 * largest}
    # The sizes just outside the measured range are added, because intervals are wider there.
    sizes = grid({*shown, *crossed, max(least - 1, 1), largest + 1})
    reached = _reached(gpu, sizes)
    first_s = np.array([gpu.predict(kernel, sizes).time_s for kernel in gpu.kernels])
    compared = _compared(gpu, sizes, np.where(reached, first_s, np.inf))
    by_kernel = [{*sizes[flags].tolist()} for flags in compared & reached]
    for place, n in _between(gpu, sizes, compared & reached):
        by_kernel[place].add(n)
    others: list[set[int]] = [set() for _ in gpu.kernels]
    for place, n in _of_variants(gpu, sizes, np.where(reached, first_s, np.inf)):
        if n in shown and n not in by_kernel[place]:
            others[place].add(n)
    for is_compared, by_place in ((True, by_kernel), (False, others)):
        for kernel, chosen in zip(gpu.kernels, by_place, strict=True):
            if chosen:
                at = np.array(sorted(chosen))
                counts = _reached(gpu, at).sum(axis=0)
                yield _rows_on_gpu(gpu, kernel, at, is_compared).assign(candidates=counts)


def _compared(gpu: Predictor, sizes: Sizes, first_s: FloatArray) -> Flags:
    """Return which kernels have rows at which size, (kernels, sizes): the fastest of each side.

    At each size they are the fastest there or at the size before or after. Beyond the measured
    sizes, they are the fastest at the nearest measured size, because extrapolated curves may cross.
    `first_s` has their times, infinite outside of their reach.
    """
    leading = np.zeros(first_s.shape, bool)
    ends = np.array([kernel.measured.sizes for kernel in gpu.kernels])
    for side in filter(np.any, _sides(gpu)):
        total_s = np.where(side[:, None], first_s, np.inf)
        is_least = np.isfinite(total_s) & (total_s == total_s.min(axis=0))
        measured = np.clip(sizes, ends[side, 0].min(), ends[side, 1].max())
        leading |= is_least[:, np.searchsorted(sizes, measured)]
    before, after = (np.roll(leading, shift, axis=1) for shift in (1, -1))
    before[:, 0] = after[:, -1] = False
    return leading | before | after


def _sides(gpu: Predictor) -> list[Flags]:
    """Return masks of the kernels: libraries, kernels on tensor cores, kernels in strict FP32."""
    is_library = np.array([kernel.is_library for kernel in gpu.kernels])
    is_tensor = np.array([VARIANTS[kernel.variant].tensor_cores for kernel in gpu.kernels])
    return [is_library, is_tensor & ~is_library, ~is_tensor & ~is_library]


def _reached(gpu: Predictor, sizes: Sizes) -> Flags:
    """Return which kernels are within the reach of their side, at which size: (kernels, sizes)."""
    ranges = np.array([kernel.measured.sizes for kernel in gpu.kernels])
    reached = np.zeros((len(ranges), len(sizes)), bool)
    for side in filter(np.any, _sides(gpu)):
        reached[side] = within_reach(ranges[side].tolist(), sizes)
    return reached


def _between(gpu: Predictor, sizes: Sizes, compared: Flags) -> Iterator[tuple[int, int]]:
    """Yield indices of kernels, and sizes to add: those at which a kernel time jumps."""
    for at, (low, high) in enumerate(itertools.pairwise(sizes.tolist())):
        places = np.flatnonzero(compared[:, at] & compared[:, at + 1]).tolist()
        kernels = [gpu.kernels[place] for place in places]
        steps = {n for kernel in kernels for n in _steps(gpu, kernel, low, high)}
        yield from itertools.product(places, steps - {low, high})


def _steps(gpu: Predictor, kernel: Kernel, low: int, high: int) -> Iterator[int]:
    """Yield the sizes from which one more tile makes a launch a step longer."""
    if not (kernel.again or kernel.curve):
        return
    for edge in {*square(kernel.variant, kernel.block_size, low).tile[:2]}:
        for n in range(math.ceil(low / edge) * edge, high, edge):
            pair = [square(kernel.variant, kernel.block_size, size) for size in (n, n + 1)]
            fills = [fill(product, gpu.multiprocessors) for product in pair]
            if abs(math.log(fills[1] / fills[0])) > LARGEST_STEP:
                yield from (n, n + 1)
            if _waves(pair[0], gpu.multiprocessors) > 1 / LARGEST_STEP:
                break  # later steps are smaller


def _waves(product: Product, multiprocessors: int) -> float:
    return product.launch.blocks / multiprocessors if product.kernel else math.inf


def _of_variants(gpu: Predictor, sizes: Sizes, first_s: FloatArray) -> Iterator[tuple[int, int]]:
    """Yield the index of each variant's fastest block size, at each size within its reach."""
    variants = np.array([kernel.variant for kernel in gpu.kernels])
    for variant in dict.fromkeys(variants.tolist()):
        places = np.flatnonzero(variants == variant)
        best = first_s[places].argmin(axis=0)
        for at, n in enumerate(sizes.tolist()):
            if np.isfinite(first_s[places[best[at]], at]):
                yield int(places[best[at]]), n


def _rows_on_gpu(gpu: Predictor, kernel: Kernel, n: Sizes, is_compared: bool) -> pd.DataFrame:
    least, largest = kernel.measured.sizes
    facts = {"variant": kernel.variant, "block_size": kernel.block_size, "n": n}
    facts |= {"least_n": least, "largest_n": largest}
    first = gpu.predict(kernel, n)
    if not is_compared:
        return pd.DataFrame({**facts, "time_s": first.time_s})
    times = _bounded("time_s", first)
    if kernel.again:
        times |= {f"{part}_s": time_s for part, time_s in gpu.split(kernel, n).items()}
    return pd.DataFrame({**facts, **times})


def _bounded(name: str, predicted: Predictions) -> dict[str, FloatArray]:
    return bounded(name, *predicted.bounds)


def _on_cpu(rows: pd.DataFrame, shortest_s: float, crossed: set[int]) -> pd.DataFrame:
    """Return rows of a CPU baseline from its curves, except times below the shortest measured."""
    names, implementations = zip(*curves(rows), strict=True)
    ranges = [one.sizes for one in implementations]
    sizes = grid({*rows["n"].tolist(), *crossed})
    least, largest = np.array(ranges).T
    nearest = np.clip(sizes, least.min(), largest.max())
    at_nearest, at_n = (
        np.array([one.predict(n).bounds for one in implementations]) for n in (nearest, sizes)
    )  # (implementations, 3, sizes)
    reached = within_reach(ranges, sizes)
    best = np.where(reached, at_nearest[:, 0], np.inf).argmin(axis=0)
    chosen = pd.DataFrame(list(names))[["variant", "block_size"]].iloc[best]
    times = at_n[best, :, np.arange(len(sizes))].T
    frame = chosen.assign(
        n=sizes, **bounded("time_s", *times), least_n=least[best], largest_n=largest[best]
    )
    frame = frame.assign(candidates=reached.sum(axis=0))
    # The shortest measured time itself differs by rounding.
    return frame[frame["time_s"] >= shortest_s * (1 - 1e-9)]
