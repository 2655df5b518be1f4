"""From which order on a GPU, with its copies, is faster than a CPU.

Both sides are curves (`analysis.decide.curves`) through the medians measured at every order; the
GPU's is the least of all its variants' there. What is asked is the smallest N from which on the
GPU stays the faster one up to the largest order that both sides have. It is told only between
orders that both were measured at: beyond them, the rule by which a curve goes on would decide it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from analysis.data.cells import is_library
from analysis.data.frames import stacked
from analysis.data.recordings import Source, with_gpu
from analysis.decide.curves import Misses, cpu_baselines, curve, left_out
from analysis.decide.predictors import Curve
from analysis.schema import bounded
from analysis.stats.estimates import DRAWS, SEED, FloatArray, percentile_interval, seeded

# Where the break-even is: between measured orders, below the smallest (the GPU is faster at every
# one), or above the largest (it is not the faster one there).
MEASURED, BELOW, ABOVE = "measured", "below", "above"
STUDY, LIBRARY = "study", "library"
_STEPS = 16  # of a search, in an octave
_RELEVANT = 2.0  # a variant that nowhere comes this near to the fastest one is left out


@dataclass(frozen=True)
class Side:
    """One side of a comparison: its variants as curves, of the medians and of bootstrap draws.

    `spread` is the standard deviation of log time that a curve is off by between the orders, by the
    distance that is an octave (`analysis.decide.predictors.Curve.reach`), NaN where nothing tells;
    `unsure` is the number of cells without interval. What is asked lies between the orders.
    """

    curves: list[Curve]
    drawn: list[Curve]
    spread: float
    unsure: int

    @property
    def orders(self) -> FloatArray:
        """All orders that were measured, sorted."""
        return np.unique(np.concatenate([np.exp(one.log_n) for one in self.curves]).round())

    def log_s(self, n: FloatArray) -> FloatArray:
        """Return log of the least time by the medians at each of `n`, shape (len(n), 1)."""
        return self._least(self.curves, n)[:, None]

    def draws(self, n: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return bootstrap draws of `log_s`, shape (len(n), DRAWS).

        Between two orders a draw is off to one side, by as much as the curves may be off there.
        """
        orders = self.orders
        reach = Curve(np.log(orders), orders, orders, orders).reach(n)
        signs = rng.standard_normal((len(orders), DRAWS))
        missed = np.where(reach > 0, self.spread * reach, 0.0)[:, None]
        return self._least(self.drawn, n) + missed * signs[np.searchsorted(orders, n)]

    def _least(self, curves: list[Curve], n: FloatArray) -> FloatArray:
        """Return the least of the curves at `n`, sorted.

        One that was not measured so far up or down as others were takes part as far as it was.
        """
        least = np.full((len(n), *curves[0].log_s.shape[1:]), np.inf)
        for one in curves:
            first, last = np.exp(one.log_n[[0, -1]])
            known = slice(*np.searchsorted(n, (first * (1 - 1e-9), last * (1 + 1e-9))))
            np.minimum(least[known], one.at(n[known]), out=least[known])
        return least


def side(cells: pd.DataFrame, draws: FloatArray, by: list[str]) -> Side | None:
    """Return the side that `cells` are of; None: no variant has two orders.

    `cells` has n and total_s, and those of a variant agree in the columns `by`; its index names
    rows of `draws` (of `analysis.stats.estimates.bootstrap_cells`). A cell without draws has its
    median.
    """
    groups = [own.sort_values("n") for _, own in cells.groupby(by, dropna=False, sort=True)]
    groups = [own for own in groups if len(own) > 1]
    if not groups:
        return None
    fastest = pd.concat(groups).groupby("n")["total_s"].min()
    near = [own["total_s"].to_numpy() < _RELEVANT * fastest[own["n"]].to_numpy() for own in groups]
    groups = [own for own, is_near in zip(groups, near, strict=True) if is_near.any()]
    curves, drawn, missed, unsure = [], [], [], 0
    for own in groups:
        n, time_s = (own[name].to_numpy(dtype=float) for name in ("n", "total_s"))
        samples = draws[own.index.to_numpy(dtype=int)]
        unsure += int(np.isnan(samples[:, 0]).sum())
        curves.append(curve(n, time_s))
        drawn.append(curve(n, np.where(np.isnan(samples), time_s[:, None], samples)))
        missed.append(left_out(n, time_s))
    return Side(curves, drawn, Misses.of(missed).spread, unsure)


def break_even_table(found: list[Source]) -> pd.DataFrame:
    """Return one row a GPU, kind of host memory, kernels and CPU CPU baseline.

    kernels are those of this `STUDY` or of a `LIBRARY`; place says where the break-even is, between
    least_n and largest_n, the orders that both sides have. n is the break-even where it is
    `MEASURED`, else NaN. Its 95 % bootstrap interval is of draws of every median and of what the
    curves may be off by between orders; a bound of 0 is one below least_n, an infinite one is above
    largest_n. slower_at is the largest order of both sides at which the GPU is not the faster one,
    faster_at the smallest from which on it is, both by the medians alone.
    """
    frames = []
    for source in with_gpu(found):
        rows = cpu_baselines(source).rename(columns={"time_s": "total_s"})
        sides = {
            str(name): side(own, source.draws["total"], ["cpu_baseline"])
            for name, own in rows.groupby("cpu_baseline", sort=False)
        }
        cpu = CpuBaselines({name: one for name, one in sides.items() if one})
        cells = source.gpu_orders
        cells = cells[cells["total_s"].notna()]
        for memory, own in cells.groupby("host_memory", sort=True):
            libraries = is_library(own)
            for kernels, chosen in ((STUDY, own[~libraries]), (LIBRARY, own[libraries])):
                gpu = side(chosen, source.draws["total"], ["variant", "block_size"])
                if gpu is None:
                    continue
                names = {"host_memory": memory, "kernels": kernels}
                frame = pd.DataFrame(_rows(gpu, cpu, f"{memory}, {kernels}"))
                names |= {"recording": source.recording_id, "gpu": source.label}
                names |= {"sessions": chosen["sessions"].max()}
                frames.append(frame.assign(**names))
    return stacked("break_even", frames)


@dataclass(frozen=True)
class CpuBaselines:
    """The sides of a host's CPU by name."""

    sides: dict[str, Side]
    _known: dict[tuple[str, bytes], FloatArray] = field(default_factory=dict)

    def draws(self, name: str, n: FloatArray) -> FloatArray:
        """Return `Side.draws` of an CPU baseline, made once for the same `n`."""
        key = (name, n.tobytes())
        if key not in self._known:
            self._known[key] = self.sides[name].draws(n, seeded("break-even", name))
        return self._known[key]


def _rows(gpu: Side, cpu: CpuBaselines, seed: str) -> Iterator[dict[str, object]]:
    """Yield the break-even with every CPU baseline; `seed` is of the draws of the GPU's side."""
    first, last = gpu.orders[[0, -1]]
    grid = np.geomspace(first, last, int(np.ceil(_STEPS * np.log2(last / first))) + 1)
    grid = np.unique(np.concatenate([grid[1:-1], *(s.orders for s in (gpu, *cpu.sides.values()))]))
    grid = grid[(grid >= first) & (grid <= last)]
    medians, draws = gpu.log_s(grid), gpu.draws(grid, seeded("break-even", seed))
    for name, cpu_baseline in cpu.sides.items():
        least, largest = cpu_baseline.orders[[0, -1]]
        both = (grid >= least) & (grid <= largest)
        common = np.intersect1d(gpu.orders, cpu_baseline.orders)
        if not both.any() or not len(common):
            continue
        asked = grid[both]
        (n,) = crossings(asked, medians[both] - cpu_baseline.log_s(asked))
        ahead = draws[both] - cpu.draws(name, asked)
        lost = common[(gpu.log_s(common) >= cpu_baseline.log_s(common))[:, 0]]
        won = common[common > lost[-1]] if len(lost) else common
        place = {0.0: BELOW, np.inf: ABOVE}.get(n, MEASURED)
        yield {
            "cpu_baseline": name,
            "least_n": round(asked[0]),
            "largest_n": round(asked[-1]),
            "location": place,
            **bounded(
                "n",
                n if place == MEASURED else np.nan,
                *percentile_interval(crossings(asked, ahead)),
            ),
            "slower_at": int(lost[-1]) if len(lost) else None,
            "faster_at": int(won[0]) if len(won) else None,
            "cells_without_interval": gpu.unsure + cpu_baseline.unsure,
            "draws": DRAWS,
            "seed": SEED,
        }


def crossings(grid: FloatArray, ahead: FloatArray) -> FloatArray:
    """Return the smallest N from which on the GPU is faster, one for each column of `ahead`.

    `ahead` is log of the GPU's time over the CPU's at the orders `grid`, shape (grid, draws). 0: it
    is faster at all of them, infinity: it is not at the last. A draw that holds NaN, where nothing
    tells what a curve may be off by, has NaN.
    """
    behind = ~(ahead < 0)
    last = len(grid) - 1 - np.argmax(behind[::-1], axis=0)
    columns = np.arange(ahead.shape[1])
    after = np.minimum(last + 1, len(grid) - 1)
    here, there = ahead[last, columns], ahead[after, columns]
    with np.errstate(invalid="ignore", divide="ignore"):
        share = here / (here - there)  # a straight line in log N
        found = grid[last] * (grid[after] / grid[last]) ** share
    found = np.where(behind.any(axis=0), np.where(last == after, np.inf, found), 0.0)
    return np.where(np.isnan(ahead).any(axis=0), np.nan, found)
