"""Measuring one device from beginning to end, and going on where an earlier attempt stopped."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from statistics import median
from typing import Any

from base.progress import Progress
from kernels.catalog.entries import variant
from kernels.catalog.variant import IN_TURN
from measurement.devices.cold_start import ColdStart
from measurement.devices.session import CellError
from measurement.recording.journal import Journal, cell_of
from measurement.recording.recording import KERNEL
from measurement.sampling.protocol import Check, Protocol, Result, Sample, gate, rounded, take
from measurement.sampling.supervisor import Supervisor
from measurement.sampling.time_left import TimeLeft
from measurement.sampling.worker import Opening, TimedKernel
from study.cells import CPU, Cell
from study.config import ProtocolSettings, Study

# Files of a recording.
_CEILINGS = "ceilings.csv"
_CHECKS = "checks.csv"
_COLD_STARTS = "cold_starts.csv"
_ENERGY = "energy.csv"
_KERNELS = "kernels.csv.gz"
_SAMPLES = "samples.csv.gz"
# What is measured in rounds: end-to-end runs, and kernels alone. Each has its own orders.
_PASS, _ALONE = "pass", "alone"
_SEEDS = {_PASS: 0, _ALONE: 1}
# A launch takes up to 0.2 µs more in some processes than in others.
# So kernels that are not far longer are timed alone in several.
_PROCESSES = 5
_SHORT_S = 1e-3

_Key = tuple[Any, ...]
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
        self._estimate = TimeLeft()

    def run(
        self,
        opening: Opening,
        cold_start: ColdStarter | None,
        meet: Callable[[], object] = lambda: None,
    ) -> None:
        """Measure all that the journal has not yet; raises StudyError if the device is lost.

        `meet` is called where devices that are measured at once wait for each other.
        """
        if cold_start:
            self._cold_starts(cold_start)
        with Supervisor(self._label, opening, self._settings.hang_limit_s) as device:
            with self._phase("start", device):
                device.start()
            self._ceilings(device)
            self._check(device)
            meet()
            self._sample(device)
            if self._label != CPU:
                meet()
                self._kernels(device)
                meet()
                self._energy(device)

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
                if sample:
                    self._note_first(sample)
                self._journal.add(_CHECKS, check.row())
                left.remove(check.cell)
                # A long run is the only sample of its cell.
                if sample and sample.total_s > self._settings.single_run_s:
                    self._journal.add(_SAMPLES, sample.row())
        progress.end()

    def _note_first(self, sample: Sample) -> None:
        """Journal how long the first run of a cell took, and its kernel."""
        timing = sample.done.timing
        self._estimate.saw(sample.cell, timing.total_s)
        self._note_pilot(sample.cell, _PASS, 0, timing.total_s)
        if timing.kernel_s is not None:
            self._note_pilot(sample.cell, _ALONE, 0, timing.kernel_s)

    def _note_pilot(self, cell: Cell, kind: str, number: int, seconds: float) -> None:
        row = {**asdict(cell), "kind": kind, "round": number, "seconds": rounded(seconds)}
        self._journal.add_pilot(row)

    def _sample(self, device: Supervisor) -> None:
        """Take the samples of the cells that passed."""
        cells = self._passed()
        wanted = self._planned(
            device, _PASS, cells, device.sample, lambda done: done.timing.total_s
        )
        taken = Counter(cell_of(row) for row in self._own(_SAMPLES))
        steps = self._steps(device, _PASS, "sampling", wanted, taken, device.sample)
        for cell, number, position, done in steps:
            self._journal.add(_SAMPLES, Sample(cell, number, position, done).row())

    def _kernels(self, device: Supervisor) -> None:
        """Time every kernel alone, short ones in several processes; host memory does not matter."""
        cells = list(self._kernel_cells().values())
        firsts, _ = self._pilots(_ALONE)
        short = [cell for cell in cells if firsts[cell] < _SHORT_S]
        long = [cell for cell in cells if firsts[cell] >= _SHORT_S]
        parts: list[int] = []

        def renew(number: int) -> None:
            parts.append((number - 1) * _PROCESSES // self._settings.max_samples)
            if parts[0] != parts[-1] != parts[-2]:
                device.renew()

        self._alone(device, long, lambda _: None)
        self._alone(device, short, renew)

    def _alone(self, device: Supervisor, cells: list[Cell], begin: Callable[[int], None]) -> None:
        """Time these kernels alone; `begin` is called before each round of their samples."""
        caches = self._settings.caches

        def held(cell: Cell) -> TimedKernel:
            return device.kernel_time(cell, caches == "flushed")

        wanted = self._planned(device, _ALONE, cells, held, lambda done: done.alone.kernel_s)
        known = {_kernel(asdict(cell)): cell for cell in wanted}
        taken = Counter(known[_kernel(row)] for row in self._own(_KERNELS) if _kernel(row) in known)
        for cell, number, position, done in self._steps(
            device, _ALONE, "kernels", wanted, taken, held, begin=begin
        ):
            row = {
                **_of_kernel(cell),
                "round": number,
                "position": position,
                "time_unix_s": round(done.time_unix_s, 6),
                "caches": caches,
                "launches": done.alone.launches,
                "kernel_s": rounded(done.alone.kernel_s),
                "sm_clock_hz": done.reading.sm_clock_hz,
                "throttle_reasons": done.reading.throttle_reasons,
            }
            self._journal.add(_KERNELS, row)

    def _pilots(self, kind: str) -> tuple[dict[Cell, float], dict[Cell, list[float]]]:
        """Return the first time of every cell in seconds, and those of its pilot."""
        firsts: dict[Cell, float] = {}
        pilots: dict[Cell, list[float]] = defaultdict(list)
        for row in self._journal.pilots:
            if row["kind"] == kind and row["round"]:
                pilots[cell_of(row)].append(row["seconds"])
            elif row["kind"] == kind:
                firsts[cell_of(row)] = row["seconds"]
        return firsts, pilots

    def _planned(
        self,
        device: Supervisor,
        kind: str,
        cells: list[Cell],
        measure: Callable[[Cell], Result],
        seconds_of: Callable[[Result], float],
    ) -> dict[Cell, int]:
        """Return how many samples each cell gets, by its pilot, which is taken where it is due."""
        protocol = self._protocol
        firsts, pilots = self._pilots(kind)
        for count in (1, protocol.fewest):
            wanted = {
                cell: count for cell in cells if protocol.wants_pilot(firsts[cell], pilots[cell])
            }
            taken = Counter({cell: len(pilots[cell]) for cell in wanted})
            for cell, number, _, done in self._steps(
                device, kind, "pilot", wanted, taken, measure, count
            ):
                pilots[cell].append(seconds_of(done))
                self._note_pilot(cell, kind, number, pilots[cell][-1])
        passed = set(self._passed())
        return {
            cell: protocol.samples(firsts[cell], pilots[cell]) for cell in cells if cell in passed
        }

    def _steps(
        self,
        device: Supervisor,
        kind: str,
        phase: str,
        wanted: dict[Cell, int],
        taken: Counter[Cell],
        measure: Callable[[Cell], Result],
        rounds: int | None = None,
        begin: Callable[[int], None] = lambda number: None,
    ) -> Iterator[tuple[Cell, int, int, Result]]:
        """Yield what `take` does; journal the cells that fail."""
        left = Counter(wanted) - taken
        if not left:
            return
        total, seed = sum(wanted.values()), (self._study.seed, _SEEDS[kind], int(phase == "pilot"))
        progress = Progress(f"{self._label}: {phase}", total, "samples")
        with self._phase(phase, device):
            rounds = rounds or self._settings.max_samples
            for step in take(measure, wanted, taken, rounds, seed, begin):
                if isinstance(step, Check):
                    self._fail(step)
                    del left[step.cell]
                    continue
                yield step
                left[step[0]] -= 1
                done = total - left.total()
                progress.show(step[0], done, lambda: self._estimate.left_s(left))
        progress.end()

    def _fail(self, check: Check) -> None:
        """Journal a cell that failed after its check; its build is known from that."""
        build = self._journal.checks()[check.cell]["build"]
        self._journal.add(_CHECKS, replace(check, build=build).row())

    def _passed(self) -> list[Cell]:
        """Return the cells of this device that have passed so far."""
        checks = self._journal.checks()
        return [cell for cell in self._cells if checks[cell]["status"] == "passed"]

    def _kernel_cells(self) -> dict[_Key, Cell]:
        """Return a cell for each kernel that passed, with pinned memory if there is one."""
        found: dict[_Key, Cell] = {}
        cells = [cell for cell in self._passed() if variant(cell.variant).flow == IN_TURN]
        for cell in sorted(cells, key=lambda cell: cell.host_memory != "pinned"):
            found.setdefault(_kernel(asdict(cell)), cell)
        return found

    def _energy(self, device: Supervisor) -> None:
        """Read the energy of the fastest block size of every variant at the wanted sizes."""
        wanted = self._study.energy
        done = {_kernel(row) for row in self._own(_ENERGY)}
        cells = self._fastest(wanted.sizes) if wanted else []
        left = [cell for cell in cells if _kernel(asdict(cell)) not in done]
        if not (wanted and left):
            return
        progress = Progress(f"{self._label}: energy", len(cells), "kernels")
        with self._phase("energy", device):
            try:
                idle_power_w = device.idle_power_w(wanted.length_s)
                for index, cell in enumerate(left):
                    progress.show(cell, len(done) + index, lambda: None)
                    found = asdict(device.energy(cell, wanted.length_s))
                    row = {**_of_kernel(cell), **found, "idle_power_w": idle_power_w}
                    self._journal.add(_ENERGY, row)
            except CellError:
                pass  # a GPU that does not tell its energy has none of these rows
        progress.end()

    def _fastest(self, sizes: list[int]) -> list[Cell]:
        """Return the cells of every variant's fastest block size at these sizes."""
        times: dict[_Key, list[float]] = defaultdict(list)
        for row in self._own(_KERNELS):
            times[_kernel(row)].append(row["kernel_s"])
        found: dict[tuple[object, ...], Cell] = {}
        cells = self._kernel_cells()
        for kernel in sorted(times, key=lambda kernel: median(times[kernel])):
            cell = cells.get(kernel)
            if cell and cell.shape.is_square and cell.n in sizes:
                found.setdefault((cell.variant, cell.dtype, cell.n), cell)
        return list(found.values())


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
        settings.single_run_s,
    )


def _kernel(row: dict[str, Any]) -> _Key:
    """Return the part of a row's cell that a kernel depends on."""
    return tuple(row[name] for name in KERNEL)


def _of_kernel(cell: Cell) -> dict[str, Any]:
    """Return that part of a cell as columns."""
    return dict(zip(KERNEL, _kernel(asdict(cell)), strict=True))
