"""The protocol: gate every cell, then sample in shuffled rounds until each is known well enough."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any
from typing import Protocol as Interface

import numpy as np

from measurement.cells import Cell
from measurement.gate import Verdict
from measurement.intervals import median_interval
from measurement.session import CellError
from measurement.worker import Pass


@dataclass(frozen=True)
class Protocol:
    """When a cell has enough samples.

    It stops when the `confidence` interval of its median total time is within
    ±`relative_half_width` of the median, when its samples have taken `budget_s`, or at
    `max_samples`; not before `min_samples`, unless a pass takes longer than `single_pass_s`: then
    it keeps that one.
    """

    confidence: float
    relative_half_width: float
    min_samples: int
    max_samples: int
    budget_s: float
    single_pass_s: float

    def enough(self, totals_s: list[float]) -> bool:
        """Tell whether these total times, in seconds, are enough samples of a cell."""
        if totals_s and totals_s[0] > self.single_pass_s:
            return True
        if len(totals_s) < self.min_samples:
            return False
        if len(totals_s) >= self.max_samples or sum(totals_s) >= self.budget_s:
            return True
        median, low, high = median_interval(np.array(totals_s), self.confidence)
        return max(high - median, median - low) <= self.relative_half_width * median


class Device(Interface):
    """What the protocol asks of a device; each method raises CellError for a cell that fails."""

    def plan(self, cell: Cell) -> tuple[str | None, str | None]:
        """Return the kind of build that runs the cell, and the limit that forbids it (or None)."""

    def check(self, cell: Cell) -> tuple[Pass, Verdict]:
        """Run the cell once on a poisoned C and judge the product."""

    def sample(self, cell: Cell) -> Pass:
        """Run the cell once, after a warm-up where its pass is short."""


@dataclass(frozen=True)
class Sample:
    """One pass of a cell. Round 0 is the pass of the gate (kept only where one pass is enough)."""

    cell: Cell
    round: int
    position: int
    done: Pass

    @property
    def total_s(self) -> float:
        """Time of the pass, in seconds."""
        return self.done.timing.total_s

    def row(self) -> dict[str, Any]:
        """Return the sample as a row of samples.csv."""
        return {
            **asdict(self.cell),
            "round": self.round,
            "position": self.position,
            "time_unix_s": round(self.done.time_unix_s, 6),
            **{name: rounded(value) for name, value in asdict(self.done.timing).items()},
            **asdict(self.done.reading),
        }


@dataclass(frozen=True)
class Check:
    """What became of a planned cell: passed, failed or not launchable."""

    cell: Cell
    build: str | None
    status: str
    reason: str | None = None
    verdict: Verdict | None = None

    def row(self) -> dict[str, Any]:
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
    device: Device, cells: list[Cell], announce: Callable[[Cell], None]
) -> Iterator[tuple[Check, Sample | None]]:
    """Check every cell once; yield its check and, where it passed, the pass as a sample of round 0.

    Cells of one product are checked together, since they share its reference.
    """
    ordered = sorted(cells, key=lambda cell: (cell.shape.flop, cell.shape, cell.dtype))
    for position, cell in enumerate(ordered):
        announce(cell)
        build = None
        try:
            build, limit = device.plan(cell)
            if limit:
                yield Check(cell, build, "not_launchable", limit), None
                continue
            done, verdict = device.check(cell)
        except CellError as error:
            yield Check(cell, build, "failed", str(error)), None
            continue
        status = "passed" if verdict.passed else "failed"
        sample = Sample(cell, 0, position, done) if verdict.passed else None
        yield Check(cell, build, status, verdict.reason, verdict), sample


@dataclass
class Taken:
    """The samples that a cell has: their total times in seconds, and the round of the last."""

    totals_s: list[float] = field(default_factory=list)
    last_round: int = 0

    def add(self, total_s: float, number: int) -> None:
        """Add a sample that was taken in round `number`."""
        self.totals_s.append(total_s)
        self.last_round = number


def take_samples(
    device: Device, cells: dict[Cell, Taken], protocol: Protocol, seed: int
) -> Iterator[tuple[Sample, bool] | Check]:
    """Sample cells that passed the gate, in rounds, each in an order shuffled anew.

    `cells` says what each has already; a cell that has enough is left alone. The order of a round
    follows from the seed, its number and the list of cells, so that a measurement that was
    interrupted goes on as it would have gone. Yields every sample with whether its cell is
    finished, and the check of a cell that fails on the way: it is sampled no more, and the rest
    goes on.
    """
    names = list(cells)
    active = {cell for cell in names if not protocol.enough(cells[cell].totals_s)}
    first = min((cells[cell].last_round for cell in active), default=0) + 1
    # A round that was left in its middle is the last of some cells and not yet of others.
    for number in itertools.count(first):
        if not active:
            return
        order = [names[i] for i in np.random.default_rng((seed, number)).permutation(len(names))]
        for position, cell in enumerate(cell for cell in order if cell in active):
            taken = cells[cell]
            if taken.last_round >= number:
                continue
            try:
                sample = Sample(cell, number, position, device.sample(cell))
            except CellError as error:
                active.remove(cell)
                yield Check(cell, None, "failed", str(error))
                continue
            taken.add(sample.total_s, number)
            finished = protocol.enough(taken.totals_s)
            if finished:
                active.remove(cell)
            yield sample, finished


def rounded(seconds: float | None) -> float | None:
    """Drop digits below a tenth of a nanosecond: no clock here has them."""
    return None if seconds is None else round(seconds, 10)
