"""The recorder's side of a worker process: it sends requests, limits times and restarts."""

import contextlib
import multiprocessing
from collections.abc import Callable
from multiprocessing.context import SpawnProcess
from typing import Any, Concatenate, ParamSpec, TypeVar

from base.errors import StudyError
from cpu_reference.blas import shorten_idle_time
from kernels.products.matrices import Matrix
from measurement.devices.errors import CellError
from measurement.devices.pieces import Setting
from measurement.devices.second_check import Change, SecondCheck
from measurement.devices.session import DeviceSession
from measurement.sampling.worker import Opening, Reply, TimedKernel, TimedRun, Worker, serve
from study.cells import Cell

P = ParamSpec("P")
Result = TypeVar("Result")

# CUDA cannot be used in a forked process.
_SPAWN = multiprocessing.get_context("spawn")
# The driver needs time to end an endless kernel.
_END_S = 60.0


class WorkerError(Exception):
    """The worker process did not answer; the message says why."""


class Supervisor:
    """Controls one device in a worker process; `call` runs methods of worker and session there.

    After a crash, a hang or a device error the process is restarted and CellError is raised. If the
    device is lost, StudyError is raised. Use it as a context manager. `busy_s` sums the device's
    time in transfers and kernels. `second_check` checks the products of samples.
    """

    def __init__(self, label: str, opening: Opening, limit_s: float) -> None:
        """Prepare a supervisor; `limit_s` limits the time of each answer."""
        self._label = label
        self._opening = opening
        self._limit_s = limit_s
        self.busy_s = 0.0
        self._process: SpawnProcess | None = None
        self._settings: dict[Cell, Setting] = {}
        self.second_check = SecondCheck(opening.problems, opening.seed)

    def __enter__(self) -> "Supervisor":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._process is None:
            return
        if kind is None:
            self._close()
        self._end()

    def call(
        self, verb: Callable[Concatenate[Any, P], Result], *arguments: P.args, **_: P.kwargs
    ) -> Result:
        """Call a method of `Worker` or `DeviceSession`, return its result; raise CellError."""
        cells = [argument for argument in arguments if isinstance(argument, Cell)]
        subject = cells[0] if cells else verb.__name__.replace("_", " ")
        result: Result = self._ask(subject, verb.__name__, *arguments)
        return result

    def sample(self, cell: Cell, last: bool = False) -> TimedRun:
        """Run the cell once, after a warm-up if its run is short.

        Check the product if the second check wants it; `last`: this is the cell's last sample.
        """
        change = self.second_check.draw(cell, last)
        timed = self.call(Worker.sample, cell, change)
        self._check_again(cell, change, 0)
        return timed

    def kernel_time(self, cell: Cell, flushed: bool, last: bool = False) -> TimedKernel:
        """Measure the cell's kernel-only time; check its product as `sample` does."""
        change = self.second_check.draw(cell, last)
        timed = self.call(Worker.kernel_time, cell, flushed, change)
        self._check_again(cell, change, timed.time.launches)
        return timed

    def _check_again(self, cell: Cell, change: Change, launches: int) -> None:
        """Check the product of a sample if its change says so (`SecondCheck.check`)."""

        def projection(vector: Matrix) -> Matrix:
            return self.call(Worker.projected, cell, vector, launches > 0)

        def rows_of(rows: list[int]) -> Matrix:
            return self.call(Worker.rows, cell, rows, launches > 0)

        if change.checked:
            self.second_check.check(cell, change, projection, rows_of, launches)

    def use(self, settings: dict[Cell, Setting]) -> None:
        """Divide the runs of these cells into pieces by these settings, also after a restart."""
        self._settings |= settings
        self.call(DeviceSession.use, self._settings)

    def begin_repeat(self, cell: Cell) -> None:
        """Start to run the cell repeatedly, until `end_repeat`."""
        self._connection.send(("repeat", [cell]))

    def end_repeat(self, cell: Cell) -> int:
        """Stop the repeated runs; return how many there were."""
        # Any request ends the runs; its answer follows the answer of the runs.
        self._connection.send(("plan", [cell]))
        count: int = self._receive(cell)
        self._receive(cell)
        return count

    def _ask(self, subject: Cell | str, name: str, *arguments: object) -> Any:
        with contextlib.suppress(OSError):  # _receive handles a dead worker
            self._connection.send((name, list(arguments)))
        return self._receive(subject)

    def _receive(self, subject: Cell | str) -> Any:
        """Return the result of the next answer; `subject` names the request in errors."""
        try:
            reply = self._reply()
        except WorkerError as lost:
            self._restart(subject, str(lost))
            raise CellError(str(lost)) from None
        self.busy_s += reply.busy_s
        if reply.kind == "device_fault":
            self._restart(subject, str(reply.result))
        if reply.kind in ("device_fault", "cell_error"):
            raise CellError(str(reply.result))
        return reply.result

    def _reply(self) -> Reply:
        """Wait for an answer; raise WorkerError without one, other errors if the study must end."""
        if not self._connection.poll(self._limit_s):
            self._end()
            raise WorkerError(
                f"no answer within {self._limit_s:g} s (study.protocol.hang_limit_s): the process "
                "was killed"
            )
        try:
            reply: Reply = self._connection.recv()
        except (EOFError, OSError):
            raise WorkerError(self._death()) from None
        if reply.kind == "study_error":
            raise StudyError(str(reply.result))
        if reply.kind == "bug":
            raise RuntimeError(f"worker of {self._label}: {reply.result}")
        return reply

    def start(self) -> None:
        """Start the process; raise StudyError if the device is not available."""
        self._connection, other = _SPAWN.Pipe()
        shorten_idle_time()
        self._process = _SPAWN.Process(target=serve, args=(other, self._opening), daemon=True)
        self._process.start()
        other.close()
        try:
            self._reply()
            if self._settings:
                self._connection.send(("use", [self._settings]))
                self._reply()
        except WorkerError as lost:
            raise StudyError(
                f"{self._label}: the measuring process does not start: {lost}; check the device"
            ) from None

    def renew(self) -> None:
        """Replace the process by a new one; raise StudyError if the device is lost."""
        self._close()
        self._restart("a planned restart", "no error")

    def _close(self) -> None:
        assert self._process
        with contextlib.suppress(OSError):
            self._connection.send(("close", []))
        self._process.join(_END_S)

    def _restart(self, subject: Cell | str, reason: str) -> None:
        """Restart the process after a fault; raise StudyError if the device is lost."""
        self._end()
        try:
            self.start()
        except StudyError as error:
            raise StudyError(
                f"{self._label}: lost after {subject} ({reason}): {error}; all samples so far are "
                "kept: rerun the same command when the device works again"
            ) from None

    def _end(self) -> None:
        self._connection.close()
        if self._process and self._process.is_alive():
            self._process.kill()
            self._process.join(_END_S)

    def _death(self) -> str:
        assert self._process
        self._process.join(_END_S)
        status = self._process.exitcode
        if status is not None and status < 0:
            return f"the measuring process was killed by signal {-status}"
        return f"the measuring process exited with status {status}"
