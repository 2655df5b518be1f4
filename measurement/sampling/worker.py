"""The worker process that opens and measures one device.

The recorder (`measurement.sampling.supervisor`) sends one request at a time through a pipe. A crash
of a kernel or the driver therefore affects only the current cell.
"""

import gc
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from pathlib import Path

from threadpoolctl import ThreadpoolController

from base.errors import StudyError
from kernels.products.change import SAME, SPARE_BYTES, Change, project
from kernels.products.gate import Verdict, evaluate
from kernels.products.matrices import Inputs, Matrix, Problem
from kernels.products.references import References
from measurement.devices.calls import imported
from measurement.devices.ceilings import Ceiling
from measurement.devices.energy import Energy
from measurement.devices.pieces import Setting, Trial
from measurement.devices.session import (
    CellError,
    DeviceError,
    DeviceSession,
    KernelTime,
    Rows,
    Timing,
)
from measurement.devices.telemetry import Reading
from study.cells import Cell


@dataclass(frozen=True)
class Opening:
    """The settings of a worker: how to open its session, and for which matrices.

    `core` is the core of timed runs, counted from the last (the first handles most interrupts).
    Before a sample, a cell whose run is shorter than `warm_up_s` is run for this time; a cell whose
    run is shorter than `warm_run_s` is run at least once.
    """

    session: Callable[[Inputs], DeviceSession]
    problems: tuple[Problem, ...]
    seed: int
    references: Path
    warm_up_s: float
    warm_run_s: float
    core: int


@dataclass(frozen=True)
class TimedRun:
    """One end-to-end run: start (UNIX time), times, and telemetry."""

    time_unix_s: float
    timing: Timing
    reading: Reading


@dataclass(frozen=True)
class TimedKernel:
    """One kernel-only sample: start (UNIX time), time, and telemetry."""

    time_unix_s: float
    time: KernelTime
    reading: Reading


@dataclass(frozen=True)
class Reply:
    """An answer: its kind, a result or error message, and the device's busy time."""

    kind: str
    result: object = None
    busy_s: float = 0.0


class Worker:
    """Handles the requests for one device; `busy_s` sums the time in transfers and kernels."""

    def __init__(
        self, session: DeviceSession, inputs: Inputs, references: References, opening: Opening
    ) -> None:
        self._session = session
        self._references = references
        self._opening = opening
        self._run_s: dict[Cell, float] = {}
        self._blas = ThreadpoolController()
        self.busy_s = 0.0

    def plan(self, cell: Cell) -> tuple[str | None, str | None]:
        """Return the build of the cell, and the limit that prevents its launch (or None)."""
        return self._session.build(cell), self._session.not_launchable(cell)

    def check(self, cell: Cell) -> tuple[TimedRun, Verdict]:
        """Run the cell once on a poisoned C; return the run and the verdict; raise CellError."""
        with all_cores():
            expected, bound = self._references.of(cell.dtype, cell.shape)
        self._session.poison(cell)
        run = self._timed_run(cell)
        with all_cores():
            product = self._session.product(cell)
            return run, evaluate(product, expected, bound, cell.bound_multiple)

    def sample(self, cell: Cell, change: Change = SAME) -> TimedRun:
        """Run the cell once, after a warm-up if its run is short; raise CellError."""
        self._warm_up(cell)
        return self._timed_run(cell, change)

    def evidence(
        self, cell: Cell, change: Change, rows: Rows, later: int, kernel_only: bool
    ) -> tuple[Matrix, str]:
        """Return rows of C, numbered like rows of A, and the hash of rows of A and B."""
        product = self._session.product(cell, kernel_only)
        product = product.reshape(-1, cell.shape.n)[list(rows[0])]
        inputs = (tuple(row for row in rows[0] if row not in change.thin), rows[1])
        return product, self._session.operands(cell, change, inputs, later)

    def projected(self, cell: Cell, vector: Matrix, kernel_only: bool) -> Matrix:
        """Return `project` of C with a vector."""
        with self._blas.limit(limits=1, user_api="blas"):
            return project(self._session.product(cell, kernel_only), vector)

    def kernel_time(self, cell: Cell, flushed: bool, change: Change = SAME) -> TimedKernel:
        """Measure the cell's kernel-only time; raise CellError."""
        self._session.telemetry.begin()
        started = time.time()
        found = self._session.kernel_time(cell, flushed, change)
        self.busy_s += found.launches * found.kernel_s
        return TimedKernel(started, found, self._session.telemetry.end())

    def energy(self, cell: Cell, length_s: float) -> Energy:
        """Measure the energy of the cell's kernel; raise CellError."""
        found = self._session.energy(cell, length_s)
        self.busy_s += found.duration_s
        return found

    def idle_power_w(self, length_s: float) -> float:
        """Measure the device's idle power; raise CellError."""
        return self._session.idle_power_w(length_s)

    def ceilings(self) -> list[Ceiling]:
        """Measure the device's ceilings; raise CellError."""
        found, busy_s = self._session.ceilings()
        self.busy_s += busy_s
        return found

    def imported(self) -> dict[str, str | None]:
        """Return the packages that user-supplied calls imported, and their versions."""
        return imported()

    def trials(self, cell: Cell) -> list[Trial]:
        """Time a run in pieces, and its copies, in all settings; raise CellError."""
        found = self._session.trials(cell)
        self.busy_s += sum(trial.copies_s + trial.run_s for trial in found)
        return found

    def use(self, settings: dict[Cell, Setting]) -> None:
        """Divide the runs of these cells in pieces in this way."""
        for cell, setting in settings.items():
            self._session.use(cell, setting)

    def repeat(self, cell: Cell, stop: Callable[[], bool]) -> int:
        """Repeat the cell's run until `stop()`; return the number of runs; raise CellError."""
        count = 0
        while not stop():
            self._run(cell)
            count += 1
        return count

    def _warm_up(self, cell: Cell) -> None:
        """Warm up caches, clocks and the driver's queues.

        A cell that is new to this process is run at least once.
        """
        limit_s = self._opening.warm_up_s
        if self._run_s.get(cell, 0.0) >= max(limit_s, self._opening.warm_run_s):
            return
        begin = time.perf_counter()
        self._run(cell)
        while time.perf_counter() - begin < limit_s:
            self._run(cell)

    def _timed_run(self, cell: Cell, change: Change = SAME) -> TimedRun:
        self._session.telemetry.begin()
        started = time.time()
        timing = self._run(cell, change)
        return TimedRun(started, timing, self._session.telemetry.end())

    def _run(self, cell: Cell, change: Change = SAME) -> Timing:
        timing = self._session.run(cell, change)
        self._run_s[cell] = timing.total_s
        self.busy_s += timing.busy_s
        return timing


_CORES = os.sched_getaffinity(0)


def keep_to_one_core(index: int) -> None:
    """Bind this thread to one of the process's cores, counted from the last."""
    os.sched_setaffinity(0, {sorted(_CORES)[-1 - index % len(_CORES)]})


@contextmanager
def all_cores() -> Iterator[None]:
    """Let this thread and its new threads use all cores, for untimed work."""
    kept = os.sched_getaffinity(0)
    os.sched_setaffinity(0, _CORES)
    try:
        yield
    finally:
        os.sched_setaffinity(0, kept)


def serve(connection: Connection, opening: Opening) -> None:
    """Open the session and answer requests until "close": the body of the worker process.

    A request is (name of a method of `Worker`, arguments); each has one `Reply`. The first reply
    reports whether the session was opened.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the recorder handles interrupts
    threading.Thread(target=_die_with_the_recorder, daemon=True).start()
    # Garbage collection during a run would be timed; nothing here creates cycles.
    gc.disable()
    try:
        inputs = Inputs(opening.problems, opening.seed, SPARE_BYTES)
        with opening.session(inputs) as session:
            references = References(inputs, opening.references)
            worker = Worker(session, inputs, references, opening)
            keep_to_one_core(opening.core)
            connection.send(Reply("result"))
            while True:
                name, arguments = connection.recv()
                if name == "close":
                    break
                connection.send(_answer(worker, connection, name, arguments))
    except StudyError as error:
        connection.send(Reply("study_error", str(error)))
    except (EOFError, BrokenPipeError):  # the recorder ended
        pass
    except Exception:
        connection.send(Reply("bug", traceback.format_exc()))


def _answer(worker: Worker, connection: Connection, name: str, arguments: list[object]) -> Reply:
    before_s = worker.busy_s
    if name == "repeat":
        arguments = [*arguments, connection.poll]
    try:
        result = getattr(worker, name)(*arguments)
    except DeviceError as error:
        return Reply("device_fault", str(error), worker.busy_s - before_s)
    except CellError as error:
        return Reply("cell_error", str(error), worker.busy_s - before_s)
    return Reply("result", result, worker.busy_s - before_s)


def _die_with_the_recorder() -> None:
    """Kill this process when the recorder has ended, even during an endless kernel."""
    recorder = parent_process()
    if recorder is not None:
        wait([recorder.sentinel])
        os.kill(os.getpid(), signal.SIGKILL)
