"""The protocol: gate every cell, fix how many samples it gets, and take them in shuffled rounds."""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeVar
from typing import Protocol as Interface

import numpy as np

from base.intervals import interval_ranks, median_interval
from kernels.products.gate import Verdict
from measurement.devices.session import CellError
from measurement.sampling.worker import Pass
from study.cells import Cell

Result = TypeVar("Result")

_FIRST_IS_SLOW = 10


@dataclass(frozen=True)
class Protocol:
    """How many samples a cell gets: fixed before the first of them is taken.

    A pilot of as many runs as the fewest samples tells how far times scatter. It is no part of
    the samples, so that the number of these depends on none of them, and the `confidence` interval
    of their median holds what it says. There are as many as it takes for that interval to lie
    within ±`relative_half_width` of the median, from `min_samples` to `max_samples`; no more than
    take `budget_s`, but the fewest that have an interval; and one where a run takes longer than
    `single_run_s`.
    """

    confidence: float
    relative_half_width: float
    min_samples: int
    max_samples: int
    budget_s: float
    single_run_s: float

    @property
    def fewest(self) -> int:
        """The fewest samples whose median has an interval."""
        return next(n for n in itertools.count(1) if interval_ranks(n, self.confidence))

    def wants_pilot(self, first_s: float, pilot_s: list[float]) -> bool:
        """Tell whether a cell may get more than the fewest samples, by what its runs took so far.

        A first run may be much slower than others: something is loaded in it.
        """
        expected_s = pilot_s[0] if pilot_s else first_s / _FIRST_IS_SLOW
        return first_s <= self.single_run_s and self.fewest * expected_s <= self.budget_s

    def samples(self, first_s: float, pilot_s: list[float]) -> int:
        """Return the number of samples of a cell, from its first run and its pilot, in seconds."""
        if first_s > self.single_run_s:
            return 1
        if len(pilot_s) < self.fewest:
            return self.fewest
        median, low, high = median_interval(np.array(pilot_s), self.confidence)
        reach = max(high - median, median - low) / (self.relative_half_width * median)
        needed = max(self.min_samples, math.ceil(len(pilot_s) * reach**2))
        return max(self.fewest, min(needed, self.max_samples, int(self.budget_s / median)))


class Device(Interface):
    """What the protocol asks of a device; each method raises CellError for a cell that fails."""

    def plan(self, cell: Cell) -> tuple[str | None, str | None]:
        """Return the kind of build that runs the cell, and the limit that forbids it (or None)."""

    def check(self, cell: Cell) -> tuple[Pass, Verdict]:
        """Run the cell once on a poisoned C and judge the product."""

    def sample(self, cell: Cell) -> Pass:
        """Run the cell once, after a warm-up where its run is short."""


@dataclass(frozen=True)
class Sample:
    """One pass of a cell. Round 0 is the run of the gate (kept only where one run is enough)."""

    cell: Cell
    round: int
    position: int
    done: Pass

    @property
    def total_s(self) -> float:
        """Time of the run, in seconds."""
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
    """Check every cell once; yield its check and, where it passed, the run as a sample of round 0.

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


def take(
    measure: Callable[[Cell], Result],
    wanted: Mapping[Cell, int],
    taken: Counter[Cell],
    rounds: int,
    seed: tuple[int, ...],
    begin: Callable[[int], None] = lambda number: None,
) -> Iterator[tuple[Cell, int, int, Result] | Check]:
    """Measure every cell as often as `wanted`, in `rounds`, each in an order shuffled anew.

    What a cell gets is spread evenly over the rounds, so that all cells see the same drift. `taken`
    says how often each was measured already, and is counted on. The order of a round follows from
    the seed, its number and the list of cells, so that a measurement that was interrupted goes on
    as it would have gone. Yields cell, round, position and result, and the check of a cell that
    fails on the way: it is measured no more, and the rest goes on. `begin` is called with the
    number of each round in which something is left to do, before it.
    """
    cells = list(wanted)
    failed = set()
    for number in range(1, rounds + 1):
        order = np.random.default_rng((*seed, number)).permutation(len(cells))
        due = [cells[i] for i in order if _by(number, rounds, wanted[cells[i]])]
        left = [taken[cell] < -(-number * wanted[cell] // rounds) for cell in due]
        if any(left):
            begin(number)
        for position, cell in enumerate(due):
            if cell in failed or not left[position]:
                continue
            try:
                result = measure(cell)
            except CellError as error:
                failed.add(cell)
                yield Check(cell, None, "failed", str(error))
                continue
            taken[cell] += 1
            yield cell, number, position, result


def _by(number: int, rounds: int, wanted: int) -> bool:
    """Tell whether a cell takes part in a round."""
    return -(-number * wanted // rounds) > -(-(number - 1) * wanted // rounds)


def rounded(seconds: float | None) -> float | None:
    """Drop digits below a tenth of a nanosecond: no clock here has them."""
    return None if seconds is None else round(seconds, 10)
