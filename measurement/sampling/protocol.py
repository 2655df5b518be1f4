"""The protocol: check each cell, fix its number of samples, measure them in shuffled rounds."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import numpy as np

from base.intervals import interval_ranks
from kernels.products.elements import exact
from kernels.products.gate import Verdict
from measurement.devices.errors import CellError
from measurement.recording.schema import one_line
from measurement.sampling.supervisor import Supervisor
from measurement.sampling.worker import TimedRun, Worker
from study.cells import Cell
from study.config import ProtocolSettings

Result = TypeVar("Result")

_FIRST_IS_SLOW = 10


@dataclass(frozen=True)
class Protocol:
    """The rule that fixes the number of samples of a cell before it is sampled.

    The number is `samples`, or as many as fit in `budget_s`, but at least `fewest`. How many fit is
    estimated from the first run or from a pilot, which is one run more. Neither is a sample, so the
    number does not depend on the samples, and the `confidence` interval of the median has its
    nominal coverage. A cell whose run takes longer than `single_run_s` gets one sample.
    """

    settings: ProtocolSettings
    budget_s: float

    @property
    def fewest(self) -> int:
        """The smallest number of samples whose median has an interval."""
        return next(n for n in itertools.count(1) if interval_ranks(n, self.settings.confidence))

    def wants_pilot(self, first_s: float) -> bool:
        """Return whether a pilot must show how many samples fit, because the first run cannot.

        The first run may be much slower than later ones, because it loads the kernel.
        """
        least_s = self.fewest * first_s / _FIRST_IS_SLOW
        most_s = self.settings.samples * first_s
        return first_s <= self.settings.single_run_s and least_s <= self.budget_s < most_s

    def samples(self, first_s: float, pilot_s: float | None = None) -> int:
        """Return the number of samples of a cell, from the seconds of its first run and pilot."""
        if first_s > self.settings.single_run_s:
            return 1
        fitting = int(self.budget_s / (pilot_s or first_s))
        return max(self.fewest, min(self.settings.samples, fitting))


@dataclass(frozen=True)
class Sample:
    """One run of a cell. Round 0 is the run of the gate, which is a sample only for long cells."""

    cell: Cell
    round: int
    position: int
    run: TimedRun

    @property
    def total_s(self) -> float:
        """The end-to-end time of the run, in seconds."""
        return self.run.timing.total_s

    def row(self) -> dict[str, Any]:
        """Return the sample as a row of samples.csv."""
        return {
            **self.cell.row(),
            "round": self.round,
            "position": self.position,
            "time_unix_s": round(self.run.time_unix_s, 6),
            **{name: rounded(value) for name, value in asdict(self.run.timing).items()},
            **asdict(self.run.reading),
        }


@dataclass(frozen=True)
class CellCheck:
    """The outcome of the check of a planned cell: passed, failed or not launchable."""

    cell: Cell
    build: str | None
    status: str
    reason: str | None = None
    verdict: Verdict | None = None

    def row(self) -> dict[str, Any]:
        """Return the check as a row of checks.csv."""
        names = ("worst_row", "worst_column", "worst_error", "worst_bound")
        return {
            **self.cell.row(),
            "build": self.build,
            "status": self.status,
            "reason": self.reason and one_line(self.reason),
            **{name: getattr(self.verdict, name, None) for name in names},
        }


def gate(
    device: Supervisor, cells: list[Cell], announce: Callable[[Cell], None]
) -> Iterator[tuple[CellCheck, Sample | None]]:
    """Check each cell once; yield the check and, if the cell passed, its run as a round-0 sample.

    Cells of one product are consecutive, because they share its reference.
    """
    ordered = sorted(cells, key=lambda cell: (cell.shape.flop, cell.shape, exact(cell.dtype)))
    for position, cell in enumerate(ordered):
        announce(cell)
        build = None
        try:
            build, limit = device.call(Worker.plan, cell)
            if limit:
                yield CellCheck(cell, build, "not_launchable", limit), None
                continue
            run, verdict = device.call(Worker.check, cell)
        except CellError as error:
            yield CellCheck(cell, build, "failed", str(error)), None
            continue
        status = "passed" if verdict.passed else "failed"
        sample = Sample(cell, 0, position, run) if verdict.passed else None
        yield CellCheck(cell, build, status, verdict.reason, verdict), sample


def take(
    measure: Callable[[Cell, bool], Result],
    wanted: Mapping[Cell, int],
    taken: Counter[Cell],
    rounds: int,
    seed: tuple[int, ...],
    begin: Callable[[int], None] = lambda number: None,
) -> Iterator[tuple[Cell, int, int, Result] | CellCheck]:
    """Measure each cell `wanted` times, in `rounds` rounds, each in a new random order.

    The samples of a cell are spread evenly over the rounds, so all cells see the same drift.
    `taken` contains the numbers of samples already measured; it is updated. The order depends only
    on the seed, the round and the list of cells, so an interrupted measurement resumes in the same
    order. Yield cell, round, position and result, or the check of a cell that failed; this cell is
    not measured again. `measure` gets the cell, and whether this is its last sample. `begin` is
    called with the number of each round with missing samples.
    """
    cells = list(wanted)
    failed = set()
    for number in range(1, rounds + 1):
        order = np.random.default_rng((*seed, number)).permutation(len(cells))
        due = [cells[i] for i in order if _is_due(number, rounds, wanted[cells[i]])]
        left = [taken[cell] < -(-number * wanted[cell] // rounds) for cell in due]
        if any(left):
            begin(number)
        for position, cell in enumerate(due):
            if cell in failed or not left[position]:
                continue
            try:
                result = measure(cell, taken[cell] + 1 == wanted[cell])
            except CellError as error:
                failed.add(cell)
                yield CellCheck(cell, None, "failed", str(error))
                continue
            taken[cell] += 1
            yield cell, number, position, result


def _is_due(number: int, rounds: int, wanted: int) -> bool:
    return -(-number * wanted // rounds) > -(-(number - 1) * wanted // rounds)


def rounded(seconds: float | None) -> float | None:
    """Round a time to 0.1 ns, which is finer than any clock used here."""
    return None if seconds is None else round(seconds, 10)
