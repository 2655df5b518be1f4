"""Times between and beyond the measured sizes: a monotone curve of log time over log N.

Between sizes it is a cubic whose slopes are those of the shape-preserving curve of Fritsch and
Butland (SIAM J. Sci. Stat. Comput. 5 (1984) 300) through groups of neighbouring sizes: the noise of
sizes such as 500 and 512 would bend it. Beyond them it continues with the slope between the last
two groups, clipped to physical limits (`EXPONENTS`). Its error is estimated by leave-one-out
prediction of each size.
"""

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from analysis.cpu.cells import candidates
from analysis.data.best import fastest
from analysis.data.cells import whole
from analysis.data.frames import concatenated
from analysis.data.recordings import MeasuredSource, once_per_recording
from analysis.decide.lookup import ALIGNED, square
from analysis.decide.predictors import Curve, fill
from analysis.schema import renaming
from analysis.stats.estimates import FloatArray, conformal, rms
from kernels.catalog.baselines import CPU_BASELINES
from kernels.catalog.entries import VARIANTS

# Smallest and largest exponent of N below the measured sizes, and above them. A time does not fall
# with N and grows no faster than the work, N³; where latencies are negligible, no slower than the
# size of the matrices, N².
EXPONENTS = ((0.0, 3.0), (2.0, 3.0))
IMPLEMENTATION = ["variant", "block_size", "threads"]
_KEY = ["recording", "gpu", "quantity", "host_memory", "cpu_baseline", *IMPLEMENTATION]
_VALUES = ["n", "time_s", "filled_s", "slope", "outer_slope"]
_WIDTHS = ["half_width_between", "half_width_beyond", "half_width"]
_COLUMNS = _KEY + _VALUES + _WIDTHS
_NEIGHBOURS = 0.1  # largest distance in log N within a group of sizes
_RELEVANT = 2.0  # implementations always slower than the fastest by this factor are dropped


def curve(n: FloatArray, time_s: FloatArray) -> Curve:
    """Return the curve through times in s, (sizes,) or (sizes, draws), at sorted sizes `n`."""
    log_n, log_s = np.log(n), np.log(time_s)
    firsts = _first_of_groups(log_n)
    counts = np.diff([*firsts, len(log_n)]).reshape(-1, *(1,) * (log_s.ndim - 1))
    means_n = np.add.reduceat(log_n, firsts).reshape(counts.shape) / counts
    steps = np.diff(means_n, axis=0)
    secants = np.diff(np.add.reduceat(log_s, firsts) / counts, axis=0) / steps
    outer = [np.clip(secants[end], *EXPONENTS[end]) for end in (0, -1)]
    slopes = np.repeat(_slopes(steps, secants), counts.ravel(), axis=0)
    return Curve(log_n, log_s, slopes, np.array(outer))


def _first_of_groups(log_n: FloatArray) -> list[int]:
    """Return where groups of neighbouring sizes begin; if there is only one group, each size."""
    firsts = [0]
    for place, size in enumerate(log_n):
        if size - log_n[firsts[-1]] > _NEIGHBOURS:
            firsts.append(place)
    return firsts if len(firsts) > 1 else list(range(len(log_n)))


def _slopes(steps: FloatArray, secants: FloatArray) -> FloatArray:
    """Return the slopes of the curve at the sizes, from secants between them: (sizes, …).

    Inner slopes are weighted harmonic means of the secants, 0 where the secants change sign. End
    slopes come from a parabola, limited to keep the shape (Moler, Numerical Computing with MATLAB,
    2004, section 3.6). SciPy's `PchipInterpolator` gives the same in ten times the time.
    """
    if len(secants) == 1:
        return np.repeat(secants, 2, axis=0)
    slopes = np.zeros((len(secants) + 1, *secants.shape[1:]))
    first, second = secants[:-1], secants[1:]
    weights = 2 * steps[1:] + steps[:-1], steps[1:] + 2 * steps[:-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = (weights[0] / first + weights[1] / second) / (weights[0] + weights[1])
        slopes[1:-1] = np.where(first * second > 0, 1 / mean, 0.0)
    for end, (near, far) in ((0, (0, 1)), (-1, (-1, -2))):
        (h0, h1), (m0, m1) = steps[[near, far]], secants[[near, far]]
        slope = ((2 * h0 + h1) * m0 - h0 * m1) / (h0 + h1)
        slope = np.where((m0 * m1 <= 0) & (abs(slope) > 3 * abs(m0)), 3 * m0, slope)
        slopes[end] = np.where(slope * m0 > 0, slope, 0.0)
    return slopes


def half_widths(errors: Sequence[FloatArray]) -> list[float]:
    """Return the half-width of the 95 % prediction interval of each curve, from its errors.

    Each error is divided by the scale of its curve. This scale is the root mean square of the
    curve's other errors and of the errors of all curves, with equal weights, because curves have
    few errors and differ in scale.
    """
    spread = rms(np.concatenate(errors))

    def scale(own: FloatArray) -> float:
        return math.hypot(rms(own) if len(own) else spread, spread) / math.sqrt(2)

    if not spread > 0:  # there are no errors, or all curves are exact
        return [0.0 if spread == 0 else math.inf] * len(errors)
    scores = [own[at] / scale(np.delete(own, at)) for own in errors for at in range(len(own))]
    return [conformal(np.array(scores)) * scale(own) for own in errors]


def leave_one_out(n: FloatArray, time_s: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the leave-one-out errors log(predicted/measured) of a curve; two sizes have none.

    Each error is divided by its distance from the other sizes
    (`analysis.decide.predictors.Curve.reach`). The first array has the errors of inner sizes, the
    second the errors of the smallest and the largest.
    """
    errors = []
    for index in range(len(n)) if len(n) > 2 else ():
        kept = np.arange(len(n)) != index
        others = curve(n[kept], time_s[kept])
        error = others.at(n[index])[0] - math.log(time_s[index])
        errors.append(error / others.reach(n[index])[0])
    return np.array(errors[1:-1]), np.array(errors[:1] + errors[-1:])


def curve_rows(found: list[MeasuredSource], held_out: bool = True) -> pd.DataFrame:
    """Return the curves of kernels, end-to-end runs and `CPU_BASELINES`, one row per size.

    quantity: "kernel", or "total" for end-to-end runs (with their host_memory) and the CPU. Only
    implementations that can be the fastest have curves of end-to-end runs (`implementations`).
    filled_s: for a kernel, the time divided by `analysis.decide.predictors.fill`; otherwise the
    time. slope: d log(filled_s)/d log n of the curve at this size; outer_slope, in the first and
    last row: the slope outside the measured sizes. half_width_between, half_width_beyond:
    half-widths of 95 % prediction intervals one octave away, from leave-one-out errors of a GPU's
    kernels, its runs of one host memory, or a CPU baseline. half_width: the half-width of the
    interval of the measured time. For one session it is at least the median over all sizes, because
    a single short interval may be chance; for several sessions half-widths are pooled. Without
    `held_out`, held-out sizes are excluded, to test the predictions there.
    """
    frames = []
    on_cpu = ((source, cpu_baselines(source)) for source in found)
    for source, rows in once_per_recording(on_cpu):
        excluded = set() if held_out else source.holdout_sizes
        fitted = rows[~rows["n"].isin(excluded)]
        sides = [([fitted[fitted["cpu_baseline"] == name]], None) for name in CPU_BASELINES]
        if source.device:
            kernels, runs = (
                cells[~cells["n"].isin(excluded)]
                for cells in (kernel_cells(source), run_cells(source))
            )
            of_kernels = kernels.groupby(IMPLEMENTATION, dropna=False)
            sides.append(([own for _, own in of_kernels], source.gpu["multiprocessors"]))
            runs = runs.rename(columns=renaming("total_s", "time_s"))
            sides += [([own], None) for _, own in runs.groupby("host_memory")]
        for groups, multiprocessors in sides:
            if multiprocessors is None:
                groups = [own for cells in _by_arithmetic(groups[0]) for own in cells]
            curves = [_curve_rows(own, multiprocessors) for own in groups if len(own) > 1]
            if curves:
                quantity = "total" if multiprocessors is None else "kernel"
                table = _with_half_widths(curves).assign(quantity=quantity)
                gpu = None if "cpu_baseline" in table else source.label
                frames.append(table.assign(recording=source.recording_id, gpu=gpu))
    return concatenated([pd.DataFrame(columns=_COLUMNS), *frames]).reindex(columns=_COLUMNS)


def implementations(cells: pd.DataFrame, time: str) -> list[pd.DataFrame]:
    """Return the cells of each implementation that can be the fastest and has two or more sizes."""
    groups = [own.sort_values("n") for _, own in cells.groupby(IMPLEMENTATION, dropna=False)]
    groups = [own for own in groups if len(own) > 1]
    if not groups:
        return []
    least = fastest(pd.concat(groups), time, ["n"]).set_index("n")[time]
    near = [own[time].to_numpy() < _RELEVANT * least[own["n"]].to_numpy() for own in groups]
    return [own for own, is_near in zip(groups, near, strict=True) if is_near.any()]


def _by_arithmetic(cells: pd.DataFrame) -> Iterator[list[pd.DataFrame]]:
    """Yield implementations in strict FP32, then on tensor cores: a user may ask for either."""
    names = [name for name, entry in VARIANTS.items() if entry.tensor_cores]
    uses_tensor_cores = cells["variant"].isin(names)
    for chosen in (~uses_tensor_cores, uses_tensor_cores):
        yield implementations(cells[chosen], "time_s")


def run_cells(source: MeasuredSource) -> pd.DataFrame:
    """Return the cells of a GPU's end-to-end runs, except those of user-supplied variants."""
    cells = _in_catalog(source.gpu_squares)
    return cells[cells["total_s"].notna()]


def _in_catalog(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the catalog's cells: predictions are read without user-supplied sources."""
    return cells[cells["variant"].isin(VARIANTS)]


def kernel_cells(source: MeasuredSource) -> pd.DataFrame:
    """Return the cells of a GPU's kernels, with kernel times as time_s.

    Variants with work on the host are excluded because no model describes that work.
    """
    cells = _in_catalog(source.gpu_squares)
    cells = cells[cells["host_memory"] == source.memory("kernel")]
    cells = cells[cells["kernel_s"].notna() & cells["host_s"].isna()]
    cells = cells.rename(columns=renaming("kernel_s", "time_s"))
    return cells.sort_values(["variant", "block_size", "n"])


def unaligned(source: MeasuredSource) -> dict[str, object]:
    """Return the sizes of a study that are not multiples of `ALIGNED`, and the error there.

    The error is the half-width, in logarithms, of kernel times predicted from multiples. Few such
    sizes are measured, so the errors of all implementations that can be the fastest are pooled.
    """
    errors = []
    for cells in itertools.chain.from_iterable(_by_arithmetic(kernel_cells(source))):
        n, time_s = (cells[name].to_numpy(dtype=float) for name in ("n", "time_s"))
        whole = n % ALIGNED == 0
        if whole.sum() > 1:
            predicted = curve(n[whole], time_s[whole]).at(n[~whole])
            errors.append(predicted - np.log(time_s[~whole]))
    sizes = sorted({n for n in source.gpu_square_cells["n"] if n % ALIGNED})
    if not sizes or not errors:
        return {}
    half_width = conformal(np.concatenate(errors))
    return {"unaligned_sizes": " ".join(map(str, sizes)), "unaligned_half_width": half_width}


def cpu_baselines(source: MeasuredSource) -> pd.DataFrame:
    """Return the candidates of each of `CPU_BASELINES` (column cpu_baseline).

    A host with one thread has no cells on all threads. The index is the index of `source.cells`.
    """
    cells = source.square_cells.rename(columns=renaming("total_s", "time_s"))
    found = candidates(cells)
    return pd.concat([found[name].assign(cpu_baseline=name) for name in CPU_BASELINES])


def _curve_rows(cells: pd.DataFrame, multiprocessors: int | None) -> pd.DataFrame:
    """Return the rows of one curve, still without half-widths."""
    fills = np.ones(len(cells))
    if multiprocessors:
        variant, block = cells.iloc[0][["variant", "block_size"]]
        products = (square(variant, whole(block), n) for n in cells["n"])
        fills = np.array([fill(product, multiprocessors) for product in products])
    n, filled_s = cells["n"].to_numpy(dtype=float), cells["time_s"].to_numpy() / fills
    found = curve(n, filled_s)
    outer = np.full(len(cells), np.nan)
    outer[[0, -1]] = found.outer
    return cells.assign(filled_s=filled_s, slope=found.slopes, outer_slope=outer)


def _with_half_widths(curves: list[pd.DataFrame]) -> pd.DataFrame:
    """Return concatenated curves, with half-widths from the pooled errors of all of them."""
    each = [
        leave_one_out(*(rows[name].to_numpy(dtype=float) for name in ("n", "filled_s")))
        for rows in curves
    ]
    between, beyond = ([errors[at] for errors in each] for at in (0, 1))
    table = pd.concat(
        rows.assign(half_width_between=width)
        for rows, width in zip(curves, half_widths(between), strict=True)
    )
    table["half_width_beyond"] = conformal(np.concatenate(beyond))
    widths = np.log(table["time_high_s"] / table["time_low_s"]).astype(float) / 2
    by = [table[name] for name in IMPLEMENTATION]
    of_curve = widths.groupby(by, dropna=False)
    usual, widest = of_curve.transform("median"), of_curve.transform("max")
    usual = usual.where(table["sessions"] == 1, 0.0)
    own = widths.clip(lower=usual).fillna(widest)  # a size without an interval gets the widest one
    return table.assign(half_width=own).fillna({"half_width": 0.0})
