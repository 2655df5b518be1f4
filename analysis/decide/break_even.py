"""Break-even sizes: the size N from which a GPU, copies included, is faster than a CPU.

The time of each side is the minimum over the curves (`analysis.decide.curves`) of its
implementations. The break-even size is the smallest whole N from which the GPU stays faster up to
the largest size measured on both sides. It is reported only between measured sizes, because it is
not extrapolated.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from analysis.data.cells import is_library
from analysis.data.frames import from_rows
from analysis.data.recordings import MeasuredSource, with_gpu
from analysis.decide.curves import (
    IMPLEMENTATION,
    cpu_baselines,
    curve,
    implementations,
    leave_one_out,
    run_cells,
)
from analysis.decide.predictors import Curve
from analysis.schema import bounded
from analysis.stats.estimates import DRAWS, FloatArray, percentile_interval, rms, seeded

# Location of the break-even size: between measured sizes; below the smallest (the GPU is faster at
# all sizes); above the largest (the GPU is slower there).
MEASURED, BELOW, ABOVE = "measured", "below", "above"
STUDY, LIBRARY = "study", "library"
_GRID_POINTS_PER_OCTAVE = 16


@dataclass(frozen=True)
class Side:
    """One side of a comparison: its implementations, with curves through medians and draws.

    `spread` is the standard deviation of a curve's error in log time at a distance of one octave
    (`analysis.decide.predictors.Curve.reach`), NaN if unknown. `cells_without_interval` counts the
    cells that have no draws.
    """

    names: list[dict[str, object]]
    curves: list[Curve]
    drawn: list[Curve]
    spread: float
    cells_without_interval: int

    @property
    def sizes(self) -> FloatArray:
        """The sizes measured with any implementation, sorted."""
        return np.unique(np.concatenate([np.exp(one.log_n) for one in self.curves]).round())

    def log_s(self, n: FloatArray) -> FloatArray:
        """Return the log of the least time at each of `n`, from the medians: shape (len(n), 1)."""
        return self._least(self.curves, n)[:, None]

    def draws(self, n: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return bootstrap draws of `log_s`, shape (len(n), DRAWS).

        In each draw, the curves have one random error for each interval between two sizes.
        """
        sizes = self.sizes
        reach = Curve(np.log(sizes), sizes, sizes, sizes).reach(n)
        signs = rng.standard_normal((len(sizes), DRAWS))
        error = np.where(reach > 0, self.spread * reach, 0.0)[:, None]
        return self._least(self.drawn, n) + error * signs[np.searchsorted(sizes, n)]

    def fastest_at(self, n: float) -> dict[str, object]:
        """Return the implementation whose median curve is lowest at size `n`."""
        times = [self._least([one], np.array([n]))[0] for one in self.curves]
        return self.names[int(np.argmin(times))]

    def _least(self, curves: list[Curve], n: FloatArray) -> FloatArray:
        """Return the minimum of the curves at the sorted sizes `n`, each within its own range."""
        least = np.full((len(n), *curves[0].log_s.shape[1:]), np.inf)
        for one in curves:
            first, last = np.exp(one.log_n[[0, -1]])
            inside = slice(*np.searchsorted(n, (first * (1 - 1e-9), last * (1 + 1e-9))))
            np.minimum(least[inside], one.at(n[inside]), out=least[inside])
        return least


def side(cells: pd.DataFrame, draws: FloatArray) -> Side | None:
    """Return the side with these `cells`; None if no implementation was measured at two sizes.

    `cells` has the columns `IMPLEMENTATION`, n and total_s. The index of `cells` selects rows of
    `draws` (of `analysis.stats.estimates.drawn_cells`); a cell without draws uses its median.
    """
    groups = implementations(cells, "total_s")
    if not groups:
        return None
    names, curves, drawn, errors, without = [], [], [], [], 0
    for group in groups:
        n, time_s = (group[name].to_numpy(dtype=float) for name in ("n", "total_s"))
        samples = draws[group.index.to_numpy(dtype=int)]
        without += int(np.isnan(samples[:, 0]).sum())
        names.append(group.iloc[0][IMPLEMENTATION].to_dict())
        curves.append(curve(n, time_s))
        drawn.append(curve(n, np.where(np.isnan(samples), time_s[:, None], samples)))
        errors.append(leave_one_out(n, time_s)[0])
    return Side(names, curves, drawn, rms(np.concatenate(errors)), without)


def break_even_table(sources: list[MeasuredSource]) -> pd.DataFrame:
    """Return one row per GPU, kind of host memory, kernels and CPU baseline.

    kernels: those of this `STUDY` or of a `LIBRARY`. location: where the break-even size is,
    relative to the sizes least_n to largest_n that both sides have. n: the break-even size if
    location is `MEASURED`, otherwise NaN. Its 95 % bootstrap interval includes the errors of the
    curves; a bound of 0 is below least_n, an infinite bound above largest_n. variant, block_size
    and the same columns of the CPU: the fastest implementations at the break-even size, or at the
    end of the range. slower_at: the largest common size at which the GPU is slower by the medians;
    faster_at: the smallest common size above slower_at. User-supplied kernels are excluded.
    """
    rows: list[dict[str, object]] = []
    for source in with_gpu(sources):
        draws = source.draws["total"]
        on_cpu = cpu_baselines(source).rename(columns={"time_s": "total_s"})
        cpu = CpuBaselines.of(dict(iter(on_cpu.groupby("cpu_baseline", sort=False))), draws)
        for memory, runs in run_cells(source).groupby("host_memory", sort=True):
            for kernels, chosen in by_library(runs):
                names = {"host_memory": memory, "kernels": kernels}
                names["sessions"] = chosen["sessions"].max()
                rows += break_even_rows(source, names, chosen, draws, cpu)
    return from_rows("break_even", rows)


def by_library(cells: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield separately the cells of this study's kernels (`STUDY`) and of a library (`LIBRARY`)."""
    libraries = is_library(cells)
    yield STUDY, cells[~libraries]
    yield LIBRARY, cells[libraries]


def break_even_rows(
    source: MeasuredSource,
    names: Mapping[str, object],
    cells: pd.DataFrame,
    draws: FloatArray,
    cpu: "CpuBaselines",
    seed: str | None = None,
) -> Iterator[dict[str, object]]:
    """Yield break-even rows for the cells of a GPU, one per CPU baseline, each with its `names`.

    `seed` seeds the draws; by default it consists of the texts of `names`.
    """
    gpu = side(cells, draws)
    labels = {"recording": source.recording_id, "gpu": source.label, **names}
    seed = seed or ", ".join(name for name in names.values() if isinstance(name, str))
    for row in between(gpu, cpu, seed) if gpu else ():
        yield labels | row


@dataclass(frozen=True)
class CpuBaselines:
    """The baselines of a host's CPU: the `Side` of each by name."""

    sides: dict[str, Side]
    _cached: dict[tuple[str, bytes], FloatArray] = field(default_factory=dict)

    @classmethod
    def of(cls, cells: Mapping[str, pd.DataFrame], draws: FloatArray) -> "CpuBaselines":
        """Return the sides with these cells, except those measured at fewer than two sizes."""
        sides = {str(name): side(rows, draws) for name, rows in cells.items()}
        return cls({name: one for name, one in sides.items() if one})

    def draws(self, name: str, n: FloatArray) -> FloatArray:
        """Return `Side.draws` of a CPU baseline, computed once for each `n`."""
        key = (name, n.tobytes())
        if key not in self._cached:
            self._cached[key] = self.sides[name].draws(n, seeded("break-even", name))
        return self._cached[key]


def between(gpu: Side, cpu: CpuBaselines, seed: str) -> Iterator[dict[str, object]]:
    """Yield a break-even row for each CPU baseline; `seed` seeds the draws of the GPU's side."""
    first, last = gpu.sizes[[0, -1]]
    points = int(np.ceil(_GRID_POINTS_PER_OCTAVE * np.log2(last / first))) + 1
    grid = np.geomspace(first, last, points)
    grid = np.unique(np.concatenate([grid[1:-1], *(s.sizes for s in (gpu, *cpu.sides.values()))]))
    grid = grid[(grid >= first) & (grid <= last)]
    medians, draws = gpu.log_s(grid), gpu.draws(grid, seeded("break-even", seed))
    for name, baseline in cpu.sides.items():
        least, largest = baseline.sizes[[0, -1]]
        both = (grid >= least) & (grid <= largest)
        common = np.intersect1d(gpu.sizes, baseline.sizes)
        if not both.any() or not len(common):
            continue
        sizes = grid[both]
        (n,) = crossings(sizes, medians[both] - baseline.log_s(sizes))
        drawn = crossings(sizes, draws[both] - cpu.draws(name, sizes))
        bounds = np.ceil(percentile_interval(drawn))
        slower = common[(gpu.log_s(common) >= baseline.log_s(common))[:, 0]]
        faster = common[common > slower[-1]] if len(slower) else common
        location = {0.0: BELOW, np.inf: ABOVE}.get(n, MEASURED)
        if location == MEASURED:
            n = _first_faster(gpu, baseline, n, sizes[-1])
        at = min(max(n, sizes[0]), sizes[-1])
        on_gpu, on_cpu = gpu.fastest_at(at), baseline.fastest_at(at)
        yield {
            "cpu_baseline": name,
            "least_n": round(sizes[0]),
            "largest_n": round(sizes[-1]),
            "location": location,
            **bounded("n", n if location == MEASURED else np.nan, *bounds),
            **{name: on_gpu[name] for name in IMPLEMENTATION[:2]},
            **{f"cpu_{name}": on_cpu[name] for name in ("variant", "threads")},
            "slower_at": int(slower[-1]) if len(slower) else None,
            "faster_at": int(faster[0]) if len(faster) else None,
            "cells_without_interval": gpu.cells_without_interval + baseline.cells_without_interval,
        }


def _first_faster(gpu: Side, cpu: Side, near: float, largest: float) -> float:
    """Return the whole size from which the GPU is faster, within a grid step of `near`."""
    n = np.arange(np.ceil(0.95 * near), min(1.05 * near, largest) + 1)
    n = n[n <= largest]
    slower = np.flatnonzero(gpu.log_s(n) >= cpu.log_s(n))
    return float(n[slower[-1]]) + 1 if len(slower) else float(np.ceil(near))


def crossings(grid: FloatArray, log_ratio: FloatArray) -> FloatArray:
    """Return the smallest N from which the GPU is faster, for each column of `log_ratio`.

    `log_ratio` is the log of the GPU's time over the CPU's at the sizes `grid`, shape (grid,
    draws). The result is 0 if the GPU is faster at all sizes, infinity if it is slower at the last,
    and NaN for a column that contains NaN.
    """
    slower = ~(log_ratio < 0)
    last = len(grid) - 1 - np.argmax(slower[::-1], axis=0)
    columns = np.arange(log_ratio.shape[1])
    after = np.minimum(last + 1, len(grid) - 1)
    here, there = log_ratio[last, columns], log_ratio[after, columns]
    with np.errstate(invalid="ignore", divide="ignore"):
        share = here / (here - there)  # linear in log N
        sizes = grid[last] * (grid[after] / grid[last]) ** share
    sizes = np.where(slower.any(axis=0), np.where(last == after, np.inf, sizes), 0.0)
    return np.where(np.isnan(log_ratio).any(axis=0), np.nan, sizes)
