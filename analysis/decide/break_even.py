"""From which order on a GPU, with its copies, is faster than a CPU.

Both sides are curves (`analysis.decide.curves`) through the medians measured at every order; the
GPU's is the least of all its variants' there. What is asked is the smallest N from which on the
GPU stays the faster one up to the largest order that both sides have.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from analysis.data.cells import is_library
from analysis.data.frames import stacked
from analysis.data.recordings import Source, with_gpu
from analysis.decide.curves import Misses, curve, left_out, opponents
from analysis.decide.predictors import MATRICES, Curve
from analysis.schema import bounded
from analysis.stats.estimates import DRAWS, SEED, FloatArray, percentile_interval, seeded

# Where the break-even is: between measured orders; below or beyond them, by extrapolation; or there
# is none as far as a search goes, for the GPU is faster at every order, or at none.
MEASURED, BELOW, BEYOND, ALWAYS, NEVER = "measured", "below", "beyond", "always", "never"
STUDY, LIBRARY = "study", "library"
_STEPS = 16  # of a search, in an octave
_BEYOND = 16  # times the largest order is as far as a search goes; below, it is 1
_RELEVANT = 2.0  # a variant that nowhere comes this near to the fastest one is left out


@dataclass(frozen=True)
class Side:
    """One side of a comparison: its variants as curves, of the medians and of bootstrap draws.

    `spreads` are the standard deviations of log time that a curve is off by one octave away from
    what was measured (`analysis.decide.predictors.Curve.reach`), between the orders and beyond
    them, NaN where nothing tells; `unsure` is the number of cells without interval. Below the
    measured orders no time is less than `floor_s`.
    """

    curves: list[Curve]
    drawn: list[Curve]
    spreads: tuple[float, float]
    unsure: int
    floor_s: float = 0.0

    @property
    def orders(self) -> FloatArray:
        """All orders that were measured, sorted."""
        return np.unique(np.concatenate([np.exp(one.log_n) for one in self.curves]).round())

    def log_s(self, n: FloatArray) -> FloatArray:
        """Return log of the least time by the medians at each of `n`, shape (len(n), 1)."""
        return self._least(self.curves, n)[:, None]

    def draws(self, n: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return bootstrap draws of `log_s`, shape (len(n), DRAWS).

        Between two orders, and beyond them, a draw is off to one side, by as much as the curves may
        be off there.
        """
        orders = self.orders
        reach = Curve(np.log(orders), orders, orders, orders).reach(n)
        signs = rng.standard_normal((len(orders) + 1, DRAWS))
        between, beyond = self.spreads
        spread = np.where((n > orders[0]) & (n < orders[-1]), between, beyond)
        missed = np.where(reach > 0, spread * reach, 0.0)[:, None]
        return self._least(self.drawn, n) + missed * signs[np.searchsorted(orders, n)]

    def _least(self, curves: list[Curve], n: FloatArray) -> FloatArray:
        """Return the least of the curves at `n`, sorted.

        One that was not measured so far up or down as others were takes part as far as it was.
        """
        nearest = np.clip(n, *self.orders[[0, -1]])
        least = np.full((len(n), *curves[0].log_s.shape[1:]), np.inf)
        for one in curves:
            first, last = np.exp(one.log_n[[0, -1]])
            known = slice(*np.searchsorted(nearest, (first * (1 - 1e-9), last * (1 + 1e-9))))
            np.minimum(least[known], one.at(n[known]), out=least[known])
        below = n < self.orders[0]
        if self.floor_s:
            least[below] = np.maximum(least[below], np.log(self.floor_s))
        return least


def side(
    cells: pd.DataFrame, draws: FloatArray, by: list[str], floor_s: float = 0.0
) -> Side | None:
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
    return Side(curves, drawn, Misses.of(missed).spreads, unsure, floor_s)


def break_even_table(found: list[Source], transfers: pd.DataFrame) -> pd.DataFrame:
    """Return one row a GPU, kind of host memory, kernels and CPU opponent.

    kernels are those of this `STUDY` or of a `LIBRARY`; `transfers` is the table of that name. n is
    the break-even with its 95 % bootstrap interval, of draws of every median and of what the curves
    may be off by between orders; place says where it is. 0 and infinity stand for ALWAYS and NEVER.
    loses_at is the largest order of both sides at which the GPU is not the faster one, wins_at the
    smallest from which on it is, both by the medians alone.
    """
    frames = []
    for source in with_gpu(found):
        rows = opponents(source).rename(columns={"time_s": "total_s"})
        sides = {
            str(name): side(own, source.draws["total"], ["opponent"])
            for name, own in rows.groupby("opponent", sort=False)
        }
        cpu = Opponents({name: one for name, one in sides.items() if one})
        cells = source.gpu_orders
        cells = cells[cells["total_s"].notna()]
        for memory, own in cells.groupby("host_memory", sort=True):
            floor_s = _floor_s(transfers, source.label, str(memory))
            libraries = is_library(own)
            for kernels, chosen in ((STUDY, own[~libraries]), (LIBRARY, own[libraries])):
                gpu = side(chosen, source.draws["total"], ["variant", "block_size"], floor_s)
                if gpu is None:
                    continue
                names = {"host_memory": memory, "kernels": kernels}
                frame = pd.DataFrame(_rows(gpu, cpu, f"{memory}, {kernels}"))
                names |= {"recording": source.recording_id, "gpu": source.label}
                frames.append(frame.assign(**names))
    return stacked("break_even", frames)


def _floor_s(transfers: pd.DataFrame, label: str, memory: str) -> float:
    """Return what a pass of nothing takes: the latency of every part but the kernel."""
    used = (transfers["used"] == True) & (transfers["gpu"] == label)  # noqa: E712
    own = transfers[used & (transfers["host_memory"] == memory)].set_index("direction")
    return sum(
        copies * float(own.at[part, "latency_s"])
        for part, (copies, _) in MATRICES.items()
        if part in own.index
    )


@dataclass(frozen=True)
class Opponents:
    """The sides of a host's CPU by name."""

    sides: dict[str, Side]
    _known: dict[tuple[str, bytes], FloatArray] = field(default_factory=dict)

    def draws(self, name: str, n: FloatArray) -> FloatArray:
        """Return `Side.draws` of an opponent, made once for the same `n`."""
        key = (name, n.tobytes())
        if key not in self._known:
            self._known[key] = self.sides[name].draws(n, seeded("break-even", name))
        return self._known[key]


def _rows(gpu: Side, cpu: Opponents, seed: str) -> Iterator[dict[str, object]]:
    """Yield the break-even with every opponent; `seed` is of the draws of the GPU's side."""
    steps = int(np.ceil(_STEPS * np.log2(gpu.orders[-1] * _BEYOND)))
    grid = np.geomspace(1, gpu.orders[-1] * _BEYOND, steps)
    orders = [one.orders for one in cpu.sides.values()]
    grid = np.unique(np.concatenate([grid, gpu.orders, *orders]))
    medians, draws = gpu.log_s(grid), gpu.draws(grid, seeded("break-even", seed))
    for name, opponent in cpu.sides.items():
        least, largest = (
            pick(gpu.orders[end], opponent.orders[end]) for pick, end in ((max, 0), (min, -1))
        )
        (n,) = crossings(grid, medians - opponent.log_s(grid), largest)
        ahead = draws - cpu.draws(name, grid)
        common = np.intersect1d(gpu.orders, opponent.orders)
        lost = common[(gpu.log_s(common) >= opponent.log_s(common))[:, 0]]
        won = common[common > lost[-1]] if len(lost) else common
        place = BELOW if n < least else MEASURED if n <= largest else BEYOND
        yield {
            "opponent": name,
            "least_n": int(least),
            "largest_n": int(largest),
            "place": {0.0: ALWAYS, np.inf: NEVER}.get(n, place),
            **bounded("n", n, *percentile_interval(crossings(grid, ahead, largest))),
            "loses_at": int(lost[-1]) if len(lost) else None,
            "wins_at": int(won[0]) if len(won) else None,
            "cells_without_interval": gpu.unsure + opponent.unsure,
            "draws": DRAWS,
            "seed": SEED,
        }


def crossings(grid: FloatArray, ahead: FloatArray, largest: float) -> FloatArray:
    """Return the smallest N from which on the GPU is faster, one for each column of `ahead`.

    `ahead` is log of the GPU's time over the CPU's at the orders `grid`, shape (grid, draws). N is
    looked for up to the order `largest` (one of the grid), and beyond it where the GPU is not the
    faster one there. 0: it is faster all along, infinity: it is nowhere. A draw that holds NaN,
    where nothing tells what a curve may be off by, has NaN.
    """
    beyond = grid > largest
    behind = ~(ahead < 0)
    wins = ~behind[int(np.argmax(beyond)) - 1]
    behind &= ~(beyond[:, None] & wins)  # what comes beyond is not asked then
    last = len(grid) - 1 - np.argmax(behind[::-1], axis=0)
    columns = np.arange(ahead.shape[1])
    after = np.minimum(last + 1, len(grid) - 1)
    here, there = ahead[last, columns], ahead[after, columns]
    with np.errstate(invalid="ignore", divide="ignore"):
        share = here / (here - there)  # a straight line in log N
        found = grid[last] * (grid[after] / grid[last]) ** share
    found = np.where(behind.any(axis=0), np.where(last == after, np.inf, found), 0.0)
    return np.where(np.isnan(ahead).any(axis=0), np.nan, found)
