"""Times between and beyond the measured orders: a monotone curve of log time over log N.

Between orders it is the shape-preserving cubic of Fritsch and Butland (SIAM J. Sci. Stat. Comput.
5 (1984) 300), so that times that grow keep growing. Beyond them it
goes on as steeply as between the last two, but no less and no more than what is physical
(`EXPONENTS`). What it may be off by is told by leaving out each order in turn.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import t as student_t

from analysis.cpu.cells import ALL, OWN, baselines, fastest, with_threads
from analysis.data.frames import stacked
from analysis.data.recordings import Source, once_a_recording
from analysis.decide.predictors import Curve, fill
from analysis.schema import renaming
from analysis.stats.estimates import CONFIDENCE, FloatArray
from kernels.catalog.entries import VARIANTS

# Least and greatest exponent of N below the measured orders, and above them: with N a time does not
# fall, and grows no faster than the work, N³; where latencies no longer count, not slower than the
# matrices, N².
EXPONENTS = ((0.0, 3.0), (2.0, 3.0))
# The CPU's ways that a GPU is compared with: the baselines of speedups and, beside the BLAS on all
# threads, the fastest of this project on all.
OWN_ALL, BEST = "own_all", "best"
CPU_BASELINES = ("naive", "own", OWN_ALL, "blas", "blas_all", BEST)
_UPPER = (1 + CONFIDENCE) / 2


def curve(n: FloatArray, time_s: FloatArray) -> Curve:
    """Return the curve through times in seconds, shape (orders,) or (orders, draws).

    `n` are at least two orders, sorted. See the module for what lies between and beyond them.
    """
    log_n, log_s = np.log(n), np.log(time_s)
    steps = np.diff(log_n).reshape(-1, *(1,) * (log_s.ndim - 1))
    secants = np.diff(log_s, axis=0) / steps
    outer = [np.clip(secants[end], *EXPONENTS[end]) for end in (0, -1)]
    return Curve(log_n, log_s, _slopes(steps, secants), np.array(outer))


def _slopes(steps: FloatArray, secants: FloatArray) -> FloatArray:
    """Return the slopes at the orders by those between them, shape (orders, …).

    Inside they are weighted harmonic means of the secants, 0 where these change sign; at the ends
    those of a parabola, as far as it keeps the shape (Moler, Numerical Computing with MATLAB, 2004,
    section 3.6). `PchipInterpolator` has the same, and takes ten times as long to say so.
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


@dataclass(frozen=True)
class Misses:
    """log(predicted/measured) of orders left out, over how far the others are from them.

    `between` are those between the others, `beyond` the smallest and the largest.
    """

    between: FloatArray
    beyond: FloatArray

    @classmethod
    def of(cls, sides: Iterable["Misses"]) -> "Misses":
        """Return those of several curves together."""
        found = [(np.empty(0), np.empty(0)), *((one.between, one.beyond) for one in sides)]
        return cls(*(np.concatenate(errors) for errors in zip(*found, strict=True)))

    @property
    def spread(self) -> float:
        """Root mean square between the orders; NaN where there is none."""
        return _rms(self.between)

    @property
    def half_widths(self) -> tuple[float, float]:
        """Half of 95 % prediction intervals, by Student's t; infinite where nothing tells."""
        widths = (
            float(student_t.ppf(_UPPER, len(errors))) * _rms(errors) if len(errors) else math.inf
            for errors in (self.between, self.beyond)
        )
        between, beyond = widths
        return between, beyond


def _rms(errors: FloatArray) -> float:
    return math.sqrt(float(np.mean(errors**2))) if len(errors) else math.nan


def left_out(n: FloatArray, time_s: FloatArray) -> Misses:
    """Return what the curve of the others misses of each order; shapes are (orders,).

    `analysis.decide.predictors.Curve.reach` is the distance. Below three orders nothing is left
    out.
    """
    errors = []
    for place in range(len(n)) if len(n) > 2 else ():
        kept = np.arange(len(n)) != place
        others = curve(n[kept], time_s[kept])
        error = others.at(n[place])[0] - math.log(time_s[place])
        errors.append(error / others.reach(n[place])[0])
    return Misses(np.array(errors[1:-1]), np.array(errors[:1] + errors[-1:]))


def curves_table(found: list[Source]) -> pd.DataFrame:
    """Return the curves of every GPU's kernels and of its CPU's `OPPONENTS`, one row an order.

    filled_s is the time over `analysis.decide.predictors.fill` (of a CPU: the time), which the
    curve goes through with the slope d log(filled_s)/d log n; outer_slope, in the first and last
    row, goes on beyond. half_width_between and half_width_beyond are those of 95 % prediction
    intervals one octave away, from that many orders left out (for kernels, of all of a GPU's
    together); half_width is that of the widest measured interval. TimedKernel-out orders take no part.
    """
    frames = []
    on_cpu = ((source, cpu_baselines(source)) for source in found)
    for source, rows in once_a_recording(on_cpu):
        own = [_curves(cells, None) for _, cells in rows.groupby("cpu_baseline", sort=False)]
        for cells in own:
            frames.append(_with_scatter([cells]).assign(recording=source.recording_id))
        if source.device:
            kernels = [
                _curves(cells, source.gpu["multiprocessors"])
                for _, cells in kernel_cells(source).groupby(
                    ["variant", "block_size"], dropna=False, sort=True
                )
                if len(cells) > 1
            ]
            if kernels:
                names = {"recording": source.recording_id, "gpu": source.label}
                frames.append(_with_scatter(kernels).assign(**names))
    return stacked("curves", frames)


def kernel_cells(source: Source) -> pd.DataFrame:
    """Return the cells of a GPU's kernels at the fitted orders, times named time_s and so on.

    Variants that have work on the host are left out: nothing here describes that. So are those from
    outside of the catalog: predictions are read where nobody knows their tiles.
    """
    cells = source.gpu_orders
    cells = cells[cells["host_memory"] == source.memory("kernel")]
    cells = cells[~cells["n"].isin(source.holdout_sizes) & cells["kernel_s"].notna()]
    cells = cells[cells["host_s"].isna()]
    cells = cells[~cells["variant"].isin([name for name, v in VARIANTS.items() if v.file])]
    cells = cells.rename(columns=renaming("kernel_s", "time_s"))
    return cells.sort_values(["variant", "block_size", "n"])


def cpu_baselines(source: Source) -> pd.DataFrame:
    """Return the CPU's cells that stand for `OPPONENTS` at each order, with that column.

    Where several do, the fastest one does. A host that has one thread has no cells on all. The
    index stays that of `source.cells`.
    """
    cells = source.orders[~source.orders["n"].isin(source.holdout_sizes)]
    own_all = with_threads(cells, ALL) & cells["variant"].isin(OWN)
    found = baselines(cells) | {OWN_ALL: fastest(cells[own_all])}
    frames = [
        found[name]
        .rename(columns=renaming("total_s", "time_s"))
        .sort_values("n")
        .assign(cpu_baseline=name)
        for name in CPU_BASELINES
    ]
    return pd.concat([frame for frame in frames if len(frame) > 1] or [frames[0].iloc[:0]])


def _curves(cells: pd.DataFrame, multiprocessors: int | None) -> pd.DataFrame:
    """Return the rows of one curve without what it may be off by."""
    fills = np.ones(len(cells))
    if multiprocessors:
        first = cells.iloc[0]
        block = None if pd.isna(first["block_size"]) else int(first["block_size"])
        fills = np.array([fill(first["variant"], block, n, multiprocessors) for n in cells["n"]])
    n, filled_s = cells["n"].to_numpy(dtype=float), cells["time_s"].to_numpy() / fills
    found = curve(n, filled_s)
    outer = np.full(len(cells), np.nan)
    outer[[0, -1]] = found.outer
    return cells.assign(filled_s=filled_s, slope=found.slopes, outer_slope=outer)


def _with_scatter(curves: list[pd.DataFrame]) -> pd.DataFrame:
    """Return curves one below the other with what they may be off by, told by all together."""
    missed = Misses.of(
        left_out(*(rows[name].to_numpy(dtype=float) for name in ("n", "filled_s")))
        for rows in curves
    )
    table = pd.concat(curves)
    table["half_width_between"], table["half_width_beyond"] = missed.half_widths
    table["left_out_between"] = len(missed.between)
    table["left_out_beyond"] = len(missed.beyond)
    widths = np.log(table["time_high_s"] / table["time_low_s"]).astype(float) / 2
    by = [table[name] for name in ("variant", "block_size")]
    own = widths.groupby(by, dropna=False).transform("max") if len(curves) > 1 else widths.max()
    return table.assign(half_width=own).fillna({"half_width": 0.0})
