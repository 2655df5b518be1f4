"""The measurement of one device, which resumes from the journal of an interrupted attempt."""

import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from statistics import median
from typing import Any

from base.progress import Progress
from kernels.catalog.entries import CONTEXT
from kernels.catalog.variant import PIECEWISE, SEQUENTIAL, UserCall
from measurement.devices.cold_start import ColdStart
from measurement.devices.errors import CellError
from measurement.devices.pieces import Setting, Trial, fastest
from measurement.devices.second_check import REFUSED, check_floor, check_in_run
from measurement.devices.session import DeviceSession
from measurement.devices.throughput import Batch
from measurement.recording.journal import IMPORTS, PHASES, PILOTS, Journal
from measurement.recording.schema import SETTING
from measurement.sampling.protocol import CellCheck, Protocol, Result, Sample, gate, rounded, take
from measurement.sampling.supervisor import Supervisor
from measurement.sampling.time_left import TimeLeft
from measurement.sampling.worker import Opening, TimedKernel, TimedRun, Worker
from study.cells import CPU, Cell
from study.config import Study

# Files of a recording.
_CEILINGS = "ceilings.csv"
_CHECKS = "checks.csv"
_COLD_STARTS = "cold_starts.csv"
_ENERGY = "energy.csv"
_KERNELS = "kernels.csv.gz"
_PIECES = "pieces.csv"
_SAMPLES = "samples.csv.gz"
_THROUGHPUT = "throughput.csv"
_SECOND_CHECK = "second_check"  # name of a phase
# Kinds of samples in rounds, as journals name them; each kind has its own random orders.
_RUN, _KERNEL_ONLY = "pass", "alone"
_SEEDS = {_RUN: 0, _KERNEL_ONLY: 1}
# Launches take up to 0.2 µs longer in some processes, so short kernels are timed in several.
_PROCESSES = 5
_SHORT_S = 1e-3
# Products of a timed batch, enough for its ends not to count; streams of products with the same A.
_PRODUCTS_PER_STREAM, _REUSE_STREAMS = 4, 4

ColdStarter = Callable[[Cell, float], ColdStart]


class DeviceMeasurement:
    """Measures one device, given by its label, its cells and the study's settings."""

    def __init__(self, label: str, cells: list[Cell], study: Study, journal: Journal) -> None:
        self._label = label
        self._cells = cells
        self._study = study
        self._journal = journal
        self._settings = study.protocol
        settings = study.protocol
        budget_s = settings.cpu_cell_budget_s if label == CPU else settings.gpu_cell_budget_s
        self._protocol = Protocol(settings, budget_s)
        self._estimate = TimeLeft()
        self._refused: dict[str, str] = {}  # reasons by user-supplied variant

    def run(
        self,
        opening: Opening,
        cold_start: ColdStarter | None,
        meet: Callable[[], object] = lambda: None,
    ) -> None:
        """Measure everything that the journal lacks; raise StudyError if the device is lost.

        `meet` waits for the other devices if they are measured at the same time.
        """
        if cold_start:
            self._cold_starts(cold_start)
        with Supervisor(self._label, opening, self._settings.hang_limit_s) as device:
            with self._phase("start", device):
                device.start()
                _ = device.second_check.inputs  # generated now, so that no sample waits for them
            self._ceilings(device)
            meet()
            self._try_settings(device)
            self._check(device)
            meet()
            self._sample(device)
            if self._label != CPU:
                meet()
                self._kernels(device)
                self._imports(device)
                meet()
                self._energy(device)
                self._throughput(device)

    @contextmanager
    def _phase(self, name: str, device: Supervisor | None = None) -> Iterator[None]:
        """Journal how long the block takes, and how long the device is busy in it.

        The time of second checks in the block has its own row.
        """
        begin, busy_s = time.perf_counter(), device.busy_s if device else 0.0
        check_s = device.second_check.seconds if device else 0.0

        def note() -> None:
            checks_s = device.second_check.seconds - check_s if device else 0.0
            wall_s = time.perf_counter() - begin - checks_s
            rows = [(name, wall_s, device.busy_s - busy_s if device else 0.0)]
            rows += [(_SECOND_CHECK, checks_s, 0.0)] if checks_s else []
            for phase, wall, busy in rows:
                times = {"wall_s": round(wall, 6), "busy_s": round(busy, 6)}
                self._journal.add(PHASES, {"device": self._label, "phase": phase, **times})

        try:
            yield
        except KeyboardInterrupt:  # the time until an interrupt counts, too
            note()
            raise
        note()

    def _own(self, table: str) -> list[dict[str, Any]]:
        return [row for row in self._journal.rows[table] if row["device"] == self._label]

    def _cold_starts(self, cold_start: ColdStarter) -> None:
        """Measure cold starts, before any other process of the study uses the device."""
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
                    break  # the gate will report the error of this cell
                seconds = {name: rounded(value) for name, value in asdict(times).items()}
                self._journal.add(_COLD_STARTS, {**cell.row(), "round": number + 1, **seconds})
        progress.end()

    def _ceilings(self, device: Supervisor) -> None:
        if self._own(_CEILINGS):
            return
        with self._phase("ceilings", device):
            try:
                ceilings = device.call(DeviceSession.ceilings)
            except CellError:
                ceilings = []  # the cells will report what is wrong with the device
        rows = [{"device": self._label, **asdict(ceiling)} for ceiling in ceilings]
        self._journal.add(_CEILINGS, *rows)

    def _try_settings(self, device: Supervisor) -> None:
        """Time each run in pieces in all settings, and use the fastest setting for its samples."""
        cells = [] if self._label == CPU else self._cells
        piecewise = [cell for cell in cells if cell.product.entry.flow in PIECEWISE]
        decided = {*self._settings_used(), *self._journal.checks()}
        left = [cell for cell in piecewise if cell not in decided]
        if left:
            progress = Progress(f"{self._label}: pieces", len(left))
            with self._phase("pieces", device):
                for done, cell in enumerate(left):
                    progress.show(cell, done, lambda: None)
                    self._try_cell(device, cell)
            progress.end()
        if used := self._settings_used():
            device.use(used)

    def _try_cell(self, device: Supervisor, cell: Cell) -> None:
        """Time a cell in all settings; if a trial fails, the cell fails."""
        build = None
        try:
            build, limit = device.call(Worker.plan, cell)
            trials = [] if limit else device.call(DeviceSession.trials, cell)
        except CellError as error:
            failed = CellCheck(cell, build, "failed", str(error))
            self._journal.add(_CHECKS, failed.row())
            return
        used = fastest(trials) if trials else None
        rows = [
            {
                **cell.kernel_row(),
                "host_memory": cell.host_memory,
                "gpus": cell.product.entry.gpus,
                **asdict(trial.setting),
                "used": int(trial.setting == used),
                "round": trial.round,
                "copies_s": rounded(trial.copies_s),
                "run_s": rounded(trial.run_s),
            }
            for trial in trials
        ]
        self._journal.add(_PIECES, *rows)

    def _settings_used(self) -> dict[Cell, Setting]:
        return {
            Cell.of(row | {"threads": None}): Setting(*(row[name] for name in SETTING))
            for row in self._own(_PIECES)
            if row["used"]
        }

    def _check(self, device: Supervisor) -> None:
        checked = self._journal.checks()
        left = [cell for cell in self._cells if cell not in checked]
        if not left:
            return
        progress = Progress(f"{self._label}: checking", len(self._cells))

        def announce(cell: Cell) -> None:
            done = len(self._cells) - len(left)
            progress.show(cell, done, lambda: self._estimate.first_runs_s(left))

        with self._phase("checking", device):
            for check, sample in gate(device, list(left), announce):
                if sample:
                    self._note_first(sample)
                self._journal.add(_CHECKS, check.row())
                left.remove(check.cell)
                # A cell with long runs has only one sample: the run of the gate.
                if sample and sample.total_s > self._settings.single_run_s:
                    self._journal.add(_SAMPLES, sample.row())
        progress.end()

    def _note_first(self, sample: Sample) -> None:
        timing = sample.run.timing
        self._estimate.add(sample.cell, timing.total_s)
        self._note_pilot(sample.cell, _RUN, 0, timing.total_s)
        if timing.kernel_s is not None:
            self._note_pilot(sample.cell, _KERNEL_ONLY, 0, timing.kernel_s)

    def _note_pilot(self, cell: Cell, kind: str, number: int, seconds: float) -> None:
        row = {**cell.row(), "kind": kind, "round": number, "seconds": rounded(seconds)}
        self._journal.add(PILOTS, row)

    def _sample(self, device: Supervisor) -> None:
        cells = self._passed()
        ceilings = self._largest_ceilings()

        def run(cell: Cell, last: bool) -> TimedRun:
            done = device.sample(cell, last)
            if self._label != CPU:
                check_floor(cell, done.timing.total_s, ceilings, end_to_end=True)
            return done

        wanted = self._planned(device, _RUN, cells, run, lambda done: done.timing.total_s)
        taken = Counter(Cell.of(row) for row in self._own(_SAMPLES))
        steps = self._steps(device, _RUN, "sampling", wanted, taken, run)
        for cell, number, position, done in steps:
            self._journal.add(_SAMPLES, Sample(cell, number, position, done).row())

    def _kernels(self, device: Supervisor) -> None:
        """Sample kernel-only times; those of short kernels in several processes."""
        cells = list(self._kernel_cells().values())
        firsts = self._runs_before(_KERNEL_ONLY, 0)
        short = [cell for cell in cells if firsts[cell] < _SHORT_S]
        long = [cell for cell in cells if firsts[cell] >= _SHORT_S]
        parts: list[int] = []

        def renew(number: int) -> None:
            parts.append((number - 1) * _PROCESSES // self._settings.samples)
            if parts[0] != parts[-1] != parts[-2]:
                device.renew()

        self._kernel_only(device, long, lambda _: None)
        self._kernel_only(device, short, renew)

    def _kernel_only(
        self, device: Supervisor, cells: list[Cell], begin: Callable[[int], None]
    ) -> None:
        """Sample kernel-only times; call `begin` before each round."""
        caches, ceilings = self._settings.caches, self._largest_ceilings()
        in_run_s: dict[Cell, float] = {}
        for row in self._own(_SAMPLES):
            kernel = Cell.kernel_of(row)
            in_run_s[kernel] = min(row["kernel_s"] or 0.0, in_run_s.get(kernel, math.inf))

        def timed(cell: Cell, last: bool) -> TimedKernel:
            done = device.kernel_time(cell, caches == "flushed", last)
            check_floor(cell, done.time.kernel_s, ceilings)
            least_s = in_run_s.get(cell.kernel, 0.0)
            check_in_run(cell, done.time.kernel_s, done.time.queued_s, least_s)
            return done

        wanted = self._planned(device, _KERNEL_ONLY, cells, timed, lambda done: done.time.kernel_s)
        counts = Counter(Cell.kernel_of(row) for row in self._own(_KERNELS))
        taken = Counter({cell: counts[cell.kernel] for cell in wanted})
        for cell, number, position, done in self._steps(
            device, _KERNEL_ONLY, "kernels", wanted, taken, timed, begin=begin
        ):
            row = {
                **cell.kernel_row(),
                "round": number,
                "position": position,
                "time_unix_s": round(done.time_unix_s, 6),
                "caches": caches,
                "launches": done.time.launches,
                "kernel_s": rounded(done.time.kernel_s),
                "sm_clock_hz": done.reading.sm_clock_hz,
                "throttle_reasons": done.reading.throttle_reasons,
            }
            self._journal.add(_KERNELS, row)

    def _runs_before(self, kind: str, number: int) -> dict[Cell, float]:
        """Return how many seconds each cell's first run (number 0) or pilot (1) took."""
        of_kind = (row for row in self._journal.rows[PILOTS] if row["kind"] == kind)
        return {Cell.of(row): row["seconds"] for row in of_kind if row["round"] == number}

    def _planned(
        self,
        device: Supervisor,
        kind: str,
        cells: list[Cell],
        measure: Callable[[Cell, bool], Result],
        seconds_of: Callable[[Result], float],
    ) -> dict[Cell, int]:
        """Return the number of samples of each cell; measure missing pilots first."""
        protocol = self._protocol
        firsts, pilots = (self._runs_before(kind, number) for number in (0, 1))
        wanted = {cell: 1 for cell in cells if protocol.wants_pilot(firsts[cell])}
        taken = Counter(cell for cell in wanted if cell in pilots)
        for cell, number, _, done in self._steps(
            device, kind, "pilot", wanted, taken, lambda cell, _: measure(cell, False), rounds=1
        ):
            pilots[cell] = seconds_of(done)
            self._note_pilot(cell, kind, number, pilots[cell])
        passed = set(self._passed())
        cells = [cell for cell in cells if cell in passed]
        return {cell: protocol.samples(firsts[cell], pilots.get(cell)) for cell in cells}

    def _steps(
        self,
        device: Supervisor,
        kind: str,
        phase: str,
        wanted: dict[Cell, int],
        taken: Counter[Cell],
        measure: Callable[[Cell, bool], Result],
        rounds: int | None = None,
        begin: Callable[[int], None] = lambda number: None,
    ) -> Iterator[tuple[Cell, int, int, Result]]:
        """Yield the results of `take`; journal the cells that fail instead of yielding them."""
        left = Counter(wanted) - taken
        if not left:
            return
        total, seed = sum(wanted.values()), (self._study.seed, _SEEDS[kind], int(phase == "pilot"))
        progress = Progress(f"{self._label}: {phase}", total, "samples")

        def measured(cell: Cell, last: bool) -> Result:
            if cell.variant in self._refused:
                raise CellError(self._refused[cell.variant])
            return measure(cell, last)

        with self._phase(phase, device):
            rounds = rounds or self._settings.samples
            for step in take(measured, wanted, taken, rounds, seed, begin):
                if isinstance(step, CellCheck):
                    self._fail(step)
                    del left[step.cell]
                    continue
                yield step
                left[step[0]] -= 1
                done = total - left.total()
                progress.show(step[0], done, lambda: self._estimate.left_s(left))
        progress.end()

    def _fail(self, check: CellCheck) -> None:
        """Journal a cell as failed, with the build that it had when it passed the check.

        If one time of user-supplied code is refused, all times of this code are refused.
        """
        failed, reason = [check], str(check.reason)
        if reason.startswith(REFUSED) and check.cell.product.is_user_supplied:
            self._refused[check.cell.variant] = reason
            same_code = [cell for cell in self._passed() if cell.variant == check.cell.variant]
            failed += [replace(check, cell=cell) for cell in same_code if cell != check.cell]
        checks = self._journal.checks()
        rows = [replace(each, build=checks[each.cell]["build"]).row() for each in failed]
        self._journal.add(_CHECKS, *rows)

    def _largest_ceilings(self) -> dict[str, float]:
        largest: dict[str, float] = {}
        for row in self._own(_CEILINGS):
            largest[row["quantity"]] = max(row["value"], largest.get(row["quantity"], 0.0))
        return largest

    def _passed(self) -> list[Cell]:
        """Return the cells of this device that passed the check and have not failed since."""
        checks = self._journal.checks()
        return [cell for cell in self._cells if checks[cell]["status"] == "passed"]

    def _kernel_cells(self) -> dict[Cell, Cell]:
        """Return for each kernel one cell that passed, with pinned memory if possible."""
        cells_by_kernel: dict[Cell, Cell] = {}
        cells = [cell for cell in self._passed() if cell.product.entry.flow in SEQUENTIAL]
        for cell in sorted(cells, key=lambda cell: cell.host_memory != "pinned"):
            cells_by_kernel.setdefault(cell.kernel, cell)
        return cells_by_kernel

    def _imports(self, device: Supervisor) -> None:
        if any(isinstance(cell.product.entry, UserCall) for cell in self._cells):
            with suppress(CellError):  # a lost process imported nothing more
                self._journal.add(IMPORTS, device.call(Worker.imported))

    def _energy(self, device: Supervisor) -> None:
        """Measure the energy of the fastest kernels, each at its fastest block size."""
        wanted = self._study.energy
        done = {Cell.kernel_of(row) for row in self._own(_ENERGY)}
        cells: list[Cell] = []
        for n in wanted.sizes if wanted else ():
            of_size = [one for one in self._fastest([n]) if one.variant not in CONTEXT]
            cells += of_size[: wanted.fastest] if wanted else []
        left = [cell for cell in cells if cell.kernel not in done]
        if not (wanted and left):
            return
        progress = Progress(f"{self._label}: energy", len(cells), "kernels")
        with self._phase("energy", device):
            try:
                idle_power_w = device.call(Worker.idle_power_w, wanted.length_s)
                for index, cell in enumerate(left):
                    progress.show(cell, len(done) + index, lambda: None)
                    energy = asdict(device.call(Worker.energy, cell, wanted.length_s))
                    row = {**cell.kernel_row(), **energy, "idle_power_w": idle_power_w}
                    self._journal.add(_ENERGY, row)
            except CellError:
                pass  # a GPU without energy counter has no rows
        progress.end()

    def _throughput(self, device: Supervisor) -> None:
        """Time products over several streams, with each wanted variant's fastest block size."""
        wanted = self._study.throughput
        if not wanted:
            return
        done = {Cell.kernel_of(row) for row in self._own(_THROUGHPUT)}
        fastest_cells = self._fastest(wanted.sizes)
        cells = [cell for cell in fastest_cells if cell.variant in wanted.variants]
        products = _PRODUCTS_PER_STREAM * max(wanted.streams)
        batches = [Batch(streams, products) for streams in wanted.streams]
        batches += [Batch(min(count, _REUSE_STREAMS), count, True) for count in wanted.reuse]
        progress = Progress(f"{self._label}: throughput", len(cells), "kernels")
        with self._phase("throughput", device):
            for index, cell in enumerate(cells):
                if cell.kernel in done:
                    continue
                progress.show(cell, index, lambda: None)
                with suppress(CellError):  # raised for a kernel whose launches share memory
                    trials = device.call(Worker.throughput, cell, batches)
                    self._journal.add(_THROUGHPUT, *(_batch_row(cell, trial) for trial in trials))
        progress.end()

    def _fastest(self, sizes: list[int]) -> list[Cell]:
        """Return at these sizes each variant's cell with the fastest block size, sorted by time."""
        times: dict[Cell, list[float]] = defaultdict(list)
        for row in self._own(_KERNELS):
            times[Cell.kernel_of(row)].append(row["kernel_s"])
        fastest_cells: dict[tuple[object, ...], Cell] = {}
        cells = self._kernel_cells()
        for kernel in sorted(times, key=lambda kernel: median(times[kernel])):
            cell = cells.get(kernel)
            if cell and cell.shape.is_square and cell.shape.n in sizes:
                fastest_cells.setdefault((cell.variant, cell.dtype, cell.shape.n), cell)
        return list(fastest_cells.values())


def _batch_row(cell: Cell, trial: Trial[Batch]) -> dict[str, Any]:
    times = {"copies_s": rounded(trial.copies_s), "run_s": rounded(trial.run_s)}
    batch = asdict(trial.setting) | {"same_a": int(trial.setting.same_a)}
    return {**cell.kernel_row(), **batch, "round": trial.round, **times}


def cold_cell(cells: list[Cell], name: str) -> Cell | None:
    """Return the cell of variant `name` for cold starts; None if no cell is suitable.

    It has the smallest size, the largest blocks and, if studied, pageable memory. The cost of a
    cold start hardly depends on the cell, so its share is largest at the smallest size.
    """
    wanted = [cell for cell in cells if cell.variant == name and cell.shape.is_square]
    return min(
        (cell for cell in wanted if cell.product.kernel and not cell.product.entry.host_step),
        key=lambda cell: (
            cell.shape.n,
            -cell.product.launch.threads_per_block,
            cell.host_memory != "pageable",
        ),
        default=None,
    )
