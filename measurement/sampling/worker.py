"""The process that measures one device: it owns the device, and may die with it.

The process that records (`measurement.sampling.supervisor`) asks it for one thing at a time through a pipe,
so that whatever happens in here, to a kernel or to a driver, costs the cell in hand and no more.
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

from base.errors import StudyError
from kernels.products.gate import Verdict, evaluate
from kernels.products.matrices import Inputs, Problem
from kernels.products.references import References
from measurement.devices.ceilings import Ceiling
from measurement.devices.energy import Energy
from measurement.devices.session import CellError, DeviceError, DeviceSession, KernelTime, Timing
from measurement.devices.telemetry import Reading
from study.cells import Cell


@dataclass(frozen=True)
class Opening:
    """What a worker needs to begin: how to open its session, and for which matrices.

    `core` counts the cores from the last one (the first serves most interrupts): passes are timed
    on that core. `warm_up_s`: cells whose run is shorter are run for so long before a sample; and
    those whose run is shorter than `warm_pass_s` once at least. `user-supplied` are files whose kernels
    are to be added to the catalog first.
    """

    session: Callable[[Inputs], DeviceSession]
    problems: tuple[Problem, ...]
    seed: int
    references: Path
    warm_up_s: float
    warm_pass_s: float
    core: int
    user_supplied: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Pass:
    """One end-to-end run: when it began (UNIX time), its times, and the state of the GPU."""

    time_unix_s: float
    timing: Timing
    reading: Reading


@dataclass(frozen=True)
class TimedKernel:
    """A kernel timed alone: when (UNIX time), how long, and the state of the GPU."""

    time_unix_s: float
    alone: KernelTime
    reading: Reading


@dataclass(frozen=True)
class Reply:
    """An answer: a result, or what went wrong; and how long the device was busy for it."""

    kind: str
    result: object = None
    busy_s: float = 0.0


class Worker:
    """Does what is asked of one device. `busy_s` adds up transfers and kernels of every run."""

    def __init__(
        self, session: DeviceSession, inputs: Inputs, references: References, opening: Opening
    ) -> None:
        self._session = session
        self._references = references
        self._opening = opening
        self._pass_s: dict[Cell, float] = {}
        self.busy_s = 0.0

    def plan(self, cell: Cell) -> tuple[str | None, str | None]:
        """Return the kind of build that runs the cell, and the limit that forbids it (or None)."""
        return self._session.build(cell), self._session.not_launchable(cell)

    def check(self, cell: Cell) -> tuple[Pass, Verdict]:
        """Run the cell once on a poisoned C and judge the product; raises CellError."""
        with all_cores():
            expected, bound = self._references.of(cell.dtype, cell.shape)
        self._session.poison(cell)
        done = self._pass(cell)
        with all_cores():
            product = self._session.product(cell)
            return done, evaluate(product, expected, bound, cell.bound_multiple)

    def sample(self, cell: Cell) -> Pass:
        """Run the cell once, after a warm-up where its run is short; raises CellError."""
        self._warm_up(cell)
        return self._pass(cell)

    def kernel_time(self, cell: Cell, flushed: bool) -> TimedKernel:
        """Time the cell's kernel alone (`DeviceSession.held`); raises CellError."""
        self._session.telemetry.begin()
        started = time.time()
        alone = self._session.kernel_time(cell, flushed)
        self.busy_s += alone.launches * alone.kernel_s
        return TimedKernel(started, alone, self._session.telemetry.end())

    def energy(self, cell: Cell, length_s: float) -> Energy:
        """Read the energy of the cell's kernel (`DeviceSession.energy`); raises CellError."""
        found = self._session.energy(cell, length_s)
        self.busy_s += found.duration_s
        return found

    def idle_power_w(self, length_s: float) -> float:
        """Read the power of the device at rest; raises CellError."""
        return self._session.idle_power_w(length_s)

    def ceilings(self) -> list[Ceiling]:
        """Measure the device's ceilings; raises CellError."""
        found, busy_s = self._session.ceilings()
        self.busy_s += busy_s
        return found

    def repeat(self, cell: Cell, stop: Callable[[], bool]) -> int:
        """Run the cell over and over until `stop()`; return how often. Raises CellError."""
        count = 0
        while not stop():
            self._run(cell)
            count += 1
        return count

    def _warm_up(self, cell: Cell) -> None:
        """Bring caches, clocks and the driver's queues into the state of a program at work.

        A cell that this process has not run yet is run once at least.
        """
        limit_s = self._opening.warm_up_s
        if self._pass_s.get(cell, 0.0) >= max(limit_s, self._opening.warm_pass_s):
            return
        begin = time.perf_counter()
        self._run(cell)
        while time.perf_counter() - begin < limit_s:
            self._run(cell)

    def _pass(self, cell: Cell) -> Pass:
        self._session.telemetry.begin()
        started = time.time()
        timing = self._run(cell)
        return Pass(started, timing, self._session.telemetry.end())

    def _run(self, cell: Cell) -> Timing:
        timing = self._session.run(cell)
        self._pass_s[cell] = timing.total_s
        self.busy_s += timing.busy_s
        return timing


_CORES = os.sched_getaffinity(0)


def keep_to_one_core(index: int) -> None:
    """Keep this thread on one of the cores that the process may use, counted from the last."""
    os.sched_setaffinity(0, {sorted(_CORES)[-1 - index % len(_CORES)]})


@contextmanager
def all_cores() -> Iterator[None]:
    """Let this thread and those that it starts use all cores, for what is not timed."""
    kept = os.sched_getaffinity(0)
    os.sched_setaffinity(0, _CORES)
    try:
        yield
    finally:
        os.sched_setaffinity(0, kept)


def serve(connection: Connection, opening: Opening) -> None:
    """Open the session and answer until told to stop: the body of the worker process.

    Requests are (name of a method of `Worker`, arguments). Every one has one `Reply`, and the
    first reply says whether the session could be opened.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the recorder decides what an interrupt means
    threading.Thread(target=_die_with_the_recorder, daemon=True).start()
    # Collecting garbage in the middle of a run would be timed; nothing here makes cycles.
    gc.disable()
    try:
        for path in opening.user_supplied:
            from kernels.catalog.user_supplied import adopt  # few have any

            adopt(path)
        inputs = Inputs(opening.problems, opening.seed)
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
    except (EOFError, BrokenPipeError):  # the recorder has gone
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
    """End this process, also out of an endless kernel, when the recorder is no more."""
    recorder = parent_process()
    if recorder is not None:
        wait([recorder.sentinel])
        os.kill(os.getpid(), signal.SIGKILL)
