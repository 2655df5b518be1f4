"""The protocol: gate every cell, then sample in shuffled rounds until each is known well enough."""

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import numpy as np

from measurement.cells import Cell
from measurement.gate import Verdict, judge
from measurement.intervals import median_interval
from measurement.matrices import Inputs, reference
from measurement.session import CellError, Session, Timing


@dataclass(frozen=True)
class Protocol:
    """When a cell has enough samples.

    It stops when the `confidence` interval of its median total time is within
    ±`relative_half_width` of the median, when its samples have taken `budget_s`, or at
    `max_samples`; not before `min_samples`, unless one sample alone exceeds the budget: then it
    keeps that one.
    """

    confidence: float
    relative_half_width: float
    min_samples: int
    max_samples: int
    budget_s: float

    def enough(self, totals_s: list[float]) -> bool:
        """Tell whether these total times, in seconds, are enough samples of a cell."""
        if totals_s and totals_s[0] > self.budget_s:
            return True
        if len(totals_s) < self.min_samples:
            return False
        if len(totals_s) >= self.max_samples or sum(totals_s) >= self.budget_s:
            return True
        median, low, high = median_interval(np.array(totals_s), self.confidence)
        return max(high - median, median - low) <= self.relative_half_width * median


@dataclass(frozen=True)
class Sample:
    """One pass of a cell. Round 0 is the pass of the gate (kept only where one pass is enough)."""

    cell: Cell
    round: int
    position: int
    time_unix_s: float
    timing: Timing

    def row(self) -> dict[str, object]:
        """Return the sample as a row of samples.csv."""
        return {
            **asdict(self.cell),
            "round": self.round,
            "position": self.position,
            "time_unix_s": round(self.time_unix_s, 6),
            **{name: _rounded(value) for name, value in asdict(self.timing).items()},
        }


@dataclass(frozen=True)
class Check:
    """What became of a planned cell: passed, failed or not launchable."""

    cell: Cell
    build: str | None
    status: str
    reason: str | None = None
    verdict: Verdict | None = None

    def row(self) -> dict[str, object]:
        """Return the check as a row of checks.csv."""
        names = ("worst_row", "worst_column", "worst_error", "worst_bound")
        return {
            **asdict(self.cell),
            "build": self.build,
            "status": self.status,
            "reason": self.reason,
            **{name: getattr(self.verdict, name, None) for name in names},
        }


def gate(
    session: Session, cells: list[Cell], inputs: Inputs, announce: Callable[[Cell], None]
) -> Iterator[tuple[Check, Sample | None]]:
    """Check every cell once; yield its check and, where it passed, the pass as a sample of round 0.

    Cells of one order are checked together, since they share the reference product.
    """
    ordered = sorted(cells, key=lambda cell: cell.n)
    for n, group in itertools.groupby(ordered, key=lambda cell: cell.n):
        expected, bound = reference(*inputs.pair(n))
        for position, cell in enumerate(group):
            announce(cell)
            build = session.build(cell)
            limit = session.not_launchable(cell)
            if limit:
                yield Check(cell, build, "not_launchable", limit), None
                continue
            try:
                session.poison(cell)
                started = time.time()
                timing = session.run(cell)
            except CellError as error:
                yield Check(cell, build, "failed", str(error)), None
                continue
            verdict = judge(session.product(cell), expected, bound)
            if not verdict.passed:
                yield Check(cell, build, "failed", verdict.reason, verdict), None
                continue
            sample = Sample(cell, 0, position, started, timing)
            yield Check(cell, build, "passed", None, verdict), sample


def take_samples(
    session: Session, first_passes: list[Sample], protocol: Protocol, seed: int
) -> Iterator[tuple[Sample, bool] | Check]:
    """Sample the cells that passed the gate, in rounds, each in an order shuffled anew.

    Yields every sample with whether its cell is finished, and the check of a cell that fails on the
    way: it is sampled no more, and the rest goes on. A cell whose first pass alone exceeds the
    budget keeps that pass as its only sample; the first pass of any other cell is its warm-up and
    is not a sample.
    """
    generator = np.random.default_rng(seed)
    totals: dict[Cell, list[float]] = {}
    for first in first_passes:
        if protocol.enough([first.timing.total_s]):
            yield first, True
        else:
            totals[first.cell] = []
    for number in itertools.count(1):
        if not totals:
            return
        active = list(totals)
        for position, index in enumerate(generator.permutation(len(active))):
            cell = active[index]
            started = time.time()
            try:
                timing = session.run(cell)
            except CellError as error:
                del totals[cell]
                yield Check(cell, session.build(cell), "failed", str(error))
                continue
            totals[cell].append(timing.total_s)
            finished = protocol.enough(totals[cell])
            if finished:
                del totals[cell]
            yield Sample(cell, number, position, started, timing), finished


def _rounded(seconds: float | None) -> float | None:
    """Drop digits below a tenth of a nanosecond: no clock here has them."""
    return None if seconds is None else round(seconds, 10)
