"""The worker process, which opens and measures one device.

The recorder (`measurement.sampling.supervisor`) sends one request at a time through a pipe. A crash
of a kernel or the driver therefore affects only the current cell.
"""

import gc
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from base.errors import StudyError
from cpu_reference.cores import all_cores, keep_to_core
from kernels.catalog.variant import UserCall
from kernels.products.elements import exact
from kernels.products.gate import Verdict, evaluate
from kernels.products.matrices import Inputs, Matrix, Problem
from kernels.products.references import References
from measurement.devices.calls import imported
from measurement.devices.errors import CellError, DeviceError
from measurement.devices.observers import Observer, Reading, results
from measurement.devices.pieces import Trial
from measurement.devices.second_check import SAME, SPARE_BYTES, Change, project
from measurement.devices.session import DeviceSession, KernelTime, Timing
from measurement.devices.throughput import Batch
from study.cells import Cell

_RAMP_S = 0.3  # launches before energy is read, until clocks and power are stable


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
    """One end-to-end run: its start (UNIX time), its times, and what observers read."""

    time_unix_s: float
    timing: Timing
    reading: Reading


@dataclass(frozen=True)
class TimedKernel:
    """One kernel-only sample: its start (UNIX time), its time, and what observers read."""

    time_unix_s: float
    time: KernelTime
    reading: Reading


@dataclass(frozen=True)
class Energy:
    """The energy of `duration_s` of launches back to back: their number, time and energy of each.

    `power_w` is the GPU's mean power during these launches, `sm_clock_hz` its mean clock.
    """

    launches: int
    duration_s: float
    launch_s: float
    power_w: float
    energy_j: float
    sm_clock_hz: int | None


@dataclass(frozen=True)
class Reply:
    """The answer to a request: its kind, a result or error message, and the device's busy time."""

    kind: str
    result: object = None
    busy_s: float = 0.0


class Worker:
    """Handles requests for one device: those for its own methods, and those for the session's."""

    def __init__(
        self, session: DeviceSession, inputs: Inputs, references: References, opening: Opening
    ) -> None:
        self._session = session
        self._references = references
        self._opening = opening
        self._run_s: dict[Cell, float] = {}
        self._observers = session.observers.runs

    @property
    def busy_s(self) -> float:
        """The seconds in transfers and kernels so far."""
        return self._session.busy_s

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a method of `Worker` or of the session; return its result; raise CellError."""
        return getattr(self if hasattr(Worker, name) else self._session, name)(*arguments)

    def plan(self, cell: Cell) -> tuple[str | None, str | None]:
        """Return the kind of the cell's build, and the limit that prevents its launch (or None)."""
        return self._session.build(cell), self._session.not_launchable(cell)

    def check(self, cell: Cell) -> tuple[TimedRun, Verdict]:
        """Run the cell on a poisoned C; return the run and the verdict; raise CellError.

        A Python function is called twice, because its first call may compile kernels.
        """
        with all_cores():
            expected, bound = self._references.of(exact(cell.dtype), cell.shape)
        is_call = isinstance(cell.product.catalog.get(cell.variant), UserCall)
        for _ in range(2 if is_call else 1):
            self._session.poison(cell)
            run = self._timed_run(cell)
        with all_cores():
            product = self._session.product(cell)
            return run, evaluate(product, expected, bound, cell.bound_multiple)

    def sample(self, cell: Cell, change: Change = SAME) -> TimedRun:
        """Run the cell once, after a warm-up if its run is short; raise CellError."""
        self._warm_up(cell)
        return self._timed_run(cell, change)

    def rows(self, cell: Cell, rows: list[int], kernel_only: bool) -> Matrix:
        """Return some rows of C, numbered through the batch."""
        return self._session.product(cell, kernel_only).reshape(-1, cell.shape.n)[rows]

    def projected(self, cell: Cell, vector: Matrix, kernel_only: bool) -> Matrix:
        """Return the product of C with a vector (`project`)."""
        with threadpool_limits(limits=1, user_api="blas"):
            return project(self._session.product(cell, kernel_only), vector)

    def kernel_time(self, cell: Cell, flushed: bool, change: Change = SAME) -> TimedKernel:
        """Measure the cell's kernel-only time; raise CellError."""
        started = time.time()
        kernel = self._session.kernel_time(cell, flushed, change, self._observers)
        self._session.busy_s += kernel.launches * kernel.kernel_s
        return TimedKernel(started, kernel, self._reading())

    def energy(self, cell: Cell, length_s: float) -> Energy:
        """Measure energy over back-to-back launches for about `length_s`; raise CellError."""
        observer = self._energy(_RAMP_S)
        launch_s = self._session.load(cell, _RAMP_S, length_s, [observer])
        duration_s, power_w, clock_hz = observer.results().values()
        self._session.busy_s += duration_s
        launches = round(duration_s / launch_s)
        return Energy(launches, duration_s, launch_s, power_w, power_w * launch_s, clock_hz)

    def idle_power_w(self, length_s: float) -> float:
        """Measure the device's mean idle power; raise CellError."""
        observer = self._energy(0.0)
        self._session.idle(length_s, [observer])
        return float(observer.results()["power_w"])

    def _energy(self, discard_s: float) -> Observer:
        """Return a new observer of energy; raise CellError."""
        if not self._session.observers.energy:
            raise CellError("the energy of this device is not measured")
        return self._session.observers.energy(discard_s)

    def _reading(self) -> Reading:
        return Reading(**results(self._observers))

    def throughput(self, cell: Cell, batches: Sequence[Batch]) -> list[Trial[Batch]]:
        """Time batches of products over several streams; raise CellError if one is wrong."""
        trials, products = self._session.throughput(cell, batches)
        with all_cores():
            expected, bound = self._references.of(cell.dtype, cell.shape)
            for number, product in enumerate(products):
                verdict = evaluate(product, expected, bound, cell.bound_multiple)
                if not verdict.passed:
                    raise CellError(f"the product of stream {number} is wrong: {verdict.reason}")
        return trials

    def imported(self) -> dict[str, str | None]:
        """Return the packages that user-supplied calls imported, and their versions."""
        return imported()

    def repeat(self, cell: Cell, stop: Callable[[], bool]) -> int:
        """Repeat the cell's run until `stop()`; return the number of runs; raise CellError."""
        count = 0
        while not stop():
            self._run(cell)
            count += 1
        return count

    def _warm_up(self, cell: Cell) -> None:
        """Repeat a short cell, so that caches, clocks and the driver's queues are warm.

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
        started = time.time()
        timing = self._run(cell, change, self._observers)
        return TimedRun(started, timing, self._reading())

    def _run(self, cell: Cell, change: Change = SAME, observers: Sequence[Observer] = ()) -> Timing:
        timing = self._session.run(cell, change, observers)
        self._run_s[cell] = timing.total_s
        self._session.busy_s += timing.busy_s
        return timing


def serve(connection: Connection, opening: Opening) -> None:
    """Open the session and answer requests until "close"; the worker process runs this function.

    A request is (name of a method of `Worker` or the session, arguments) and has one `Reply`. The
    first reply reports whether the session was opened.
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
            keep_to_core(opening.core)
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
        result = worker.call(name, *arguments)
    except DeviceError as error:
        return Reply("device_fault", str(error), worker.busy_s - before_s)
    except CellError as error:
        return Reply("cell_error", str(error), worker.busy_s - before_s)
    return Reply("result", result, worker.busy_s - before_s)


def _die_with_the_recorder() -> None:
    """Kill this process when the recorder ends, even during a kernel that never ends."""
    recorder = parent_process()
    if recorder is not None:
        wait([recorder.sentinel])
        os.kill(os.getpid(), signal.SIGKILL)
