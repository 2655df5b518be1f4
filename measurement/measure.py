"""Measuring one device from beginning to end, and going on where an earlier attempt stopped."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

from kernels.catalog import variant
from measurement.cells import CPU, Cell
from measurement.cold_start import ColdStart
from measurement.config import ProtocolSettings, Study
from measurement.journal import Journal, cell_of
from measurement.progress import Progress, TimeLeft
from measurement.protocol import Check, Protocol, Sample, Taken, gate, rounded, take_samples
from measurement.recording import KERNEL
from measurement.session import CellError
from measurement.supervisor import Supervisor
from measurement.worker import Opening

# Files of a recording; its format calls launches back to back batches.
_BACK_TO_BACK = "batches.csv.gz"
_CEILINGS = "ceilings.csv"
_CHECKS = "checks.csv"
_COLD_STARTS = "cold_starts.csv"
_SAMPLES = "samples.csv.gz"

ColdStarter = Callable[[Cell, float], ColdStart]


class Measurement:
    """What is measured of one device: its label, its cells, and the study that asks for it."""

    def __init__(self, label: str, cells: list[Cell], study: Study, journal: Journal) -> None:
        self._label = label
        self._cells = cells
        self._study = study
        self._journal = journal
        self._settings = study.protocol
        self._protocol = protocol_of(self._settings, label)
        self._estimate = TimeLeft(self._protocol)

    def run(self, opening: Opening, cold_start: ColdStarter | None) -> None:
        """Measure all that the journal has not yet; raises StudyError if the device is lost."""
        if cold_start:
            self._cold_starts(cold_start)
        with Supervisor(self._label, opening, self._settings.hang_limit_s) as device:
            with self._phase("start", device):
                device.start()
            self._ceilings(device)
            self._check(device)
            self._sample(device)
            if self._label != CPU:
                self._back_to_back(device)

    @contextmanager
    def _phase(self, name: str, device: Supervisor | None = None) -> Iterator[None]:
        """Note how long a part took, and how busy the device was in it."""
        begin, busy_s = time.perf_counter(), device.busy_s if device else 0.0
        yield
        self._journal.add_phase(
            {
                "device": self._label,
                "phase": name,
                "wall_s": round(time.perf_counter() - begin, 6),
                "busy_s": round((device.busy_s if device else 0.0) - busy_s, 6),
            }
        )

    def _own(self, table: str) -> list[dict[str, Any]]:
        return [row for row in self._journal.rows[table] if row["device"] == self._label]

    def _cold_starts(self, cold_start: ColdStarter) -> None:
        """Start fresh processes, before any other process of the study has the device."""
        done = len(self._own(_COLD_STARTS))
        wanted = self._settings.cold_starts
        cell = cold_cell(self._cells, self._study.variants[0])
        if cell is None or done >= wanted:
            return
        progress = Progress(f"{self._label}: cold starts", wanted, "processes")
        with self._phase("cold_starts"):
            for number in range(done, wanted):
                progress.show(cell, number, lambda: None)
                try:
                    times = cold_start(cell, self._settings.hang_limit_s)
                except CellError:
                    break  # the gate will tell what is wrong with this cell
                seconds = {name: rounded(value) for name, value in asdict(times).items()}
                self._journal.add(_COLD_STARTS, {**asdict(cell), "round": number + 1, **seconds})
        progress.end()

    def _ceilings(self, device: Supervisor) -> None:
        """Measure the ceilings, all at once: they are short."""
        if self._own(_CEILINGS):
            return
        with self._phase("ceilings", device):
            try:
                found = device.ceilings()
            except CellError:
                found = []  # of a device that cannot do it, the cells will tell
        rows = [{"device": self._label, **asdict(ceiling)} for ceiling in found]
        self._journal.add(_CEILINGS, *rows)

    def _check(self, device: Supervisor) -> None:
        """Run the gate over the cells that have no outcome yet."""
        known = self._journal.checks()
        left = [cell for cell in self._cells if cell not in known]
        if not left:
            return
        progress = Progress(f"{self._label}: checking", len(self._cells))

        def announce(cell: Cell) -> None:
            done = len(self._cells) - len(left)
            progress.show(cell, done, lambda: self._estimate.first_passes_s(left))

        with self._phase("checking", device):
            for check, sample in gate(device, list(left), announce):
                self._journal.add(_CHECKS, check.row())
                left.remove(check.cell)
                if sample:
                    self._estimate.saw(sample.cell, sample.total_s, 0)
                # A long pass is the only sample of its cell.
                if sample and self._protocol.enough([sample.total_s]):
                    self._journal.add(_SAMPLES, sample.row())
        progress.end()

    def _sample(self, device: Supervisor) -> None:
        """Sample the cells that passed until each has enough."""
        taken = self._taken()
        left = {cell for cell in taken if not self._protocol.enough(taken[cell].totals_s)}
        if not left:
            return
        progress = Progress(f"{self._label}: measuring", len(taken))
        with self._phase("sampling", device):
            for step in take_samples(device, taken, self._protocol, self._study.seed):
                if isinstance(step, Check):
                    self._fail(step)
                    left.remove(step.cell)
                    continue
                sample, finished = step
                self._note(sample, len(taken[sample.cell].totals_s))
                if finished:
                    left.remove(sample.cell)
                progress.show(
                    sample.cell,
                    len(taken) - len(left),
                    lambda: self._estimate.sampling_s(left),
                )
        progress.end()

    def _note(self, sample: Sample, count: int) -> None:
        self._journal.add(_SAMPLES, sample.row())
        self._estimate.saw(sample.cell, sample.total_s, count)

    def _fail(self, check: Check) -> None:
        """Journal a cell that failed while it was sampled; its build is known from its check."""
        build = self._journal.checks()[check.cell]["build"]
        self._journal.add(_CHECKS, replace(check, build=build).row())

    def _taken(self) -> dict[Cell, Taken]:
        """Return the cells of this device that passed, with the samples they have."""
        checks = self._journal.checks()
        taken = {cell: Taken() for cell in self._cells if checks[cell]["status"] == "passed"}
        for row in self._own(_SAMPLES):
            cell = cell_of(row)
            if cell in taken:
                taken[cell].add(row["total_s"], row["round"])
        return taken

    def _back_to_back(self, device: Supervisor) -> None:
        """Launch short kernels back to back: one cell a kernel, the copies do not matter here."""
        length_s = self._settings.batch_s
        taken = self._taken()
        cells = _short_kernels(
            [row for row in self._own(_SAMPLES) if cell_of(row) in taken], length_s
        )
        rounds = range(1, self._settings.min_samples + 1)
        done = {(_kernel(row), row["round"]) for row in self._own(_BACK_TO_BACK)}
        left = [
            (cell, number)
            for number in rounds
            for cell in cells
            if (_kernel(asdict(cell)), number) not in done
        ]
        if not left:
            return
        progress = Progress(f"{self._label}: back to back", len(cells) * len(rounds), "runs")
        with self._phase("batches", device):
            failed: set[Cell] = set()
            for index, (cell, number) in enumerate(left):
                if cell in failed:  # an endless kernel would cost each round its time limit
                    continue
                progress.show(cell, len(done) + index, lambda: None)
                try:
                    launches = device.back_to_back(cell, length_s)
                except CellError as error:
                    failed.add(cell)
                    self._fail(Check(cell, None, "failed", f"back to back: {error}"))
                    continue
                kernel = dict(zip(KERNEL, _kernel(asdict(cell)), strict=True))
                self._journal.add(_BACK_TO_BACK, {**kernel, "round": number, **asdict(launches)})
        progress.end()


def cold_cell(cells: list[Cell], name: str) -> Cell | None:
    """Return the cell that cold starts are measured with, of the variant `name`; None: none is fit.

    It is the smallest order in the largest blocks, from pageable memory where that is studied:
    what a cold start costs beyond a warm pass hardly depends on the cell, and the smallest shows it
    best.
    """
    entry = variant(name)
    if entry.kernel is None or entry.host_step:
        return None
    return min(
        (cell for cell in cells if cell.variant == name and cell.shape.is_square),
        key=lambda cell: (cell.n, -(cell.block_size or 0), cell.host_memory != "pageable"),
        default=None,
    )


def protocol_of(settings: ProtocolSettings, label: str) -> Protocol:
    """Return the stopping rule of a device; CPU and GPU cells have budgets of their own."""
    return Protocol(
        settings.confidence,
        settings.relative_half_width,
        settings.min_samples,
        settings.max_samples,
        settings.cpu_cell_budget_s if label == CPU else settings.gpu_cell_budget_s,
        settings.single_pass_s,
    )


def _kernel(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return the part of a row's cell that a kernel depends on."""
    return tuple(row[name] for name in KERNEL)


def _short_kernels(rows: list[dict[str, Any]], length_s: float) -> list[Cell]:
    """Return a cell for each kernel of which two launches take `length_s` or less."""
    kernel_s: dict[tuple[Any, ...], float] = {}
    cells: dict[tuple[Any, ...], Cell] = {}
    for row in rows:
        kernel = _kernel(row)
        kernel_s[kernel] = min(row["kernel_s"], kernel_s.get(kernel, row["kernel_s"]))
        cells.setdefault(kernel, cell_of(row))
    return [cell for kernel, cell in cells.items() if 2 * kernel_s[kernel] <= length_s]
