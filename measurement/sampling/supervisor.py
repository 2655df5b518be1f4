"""The recorder's side of a worker process: it asks, waits only so long, and starts it afresh."""

import contextlib
import multiprocessing
from multiprocessing.context import SpawnProcess
from types import TracebackType
from typing import Any

from base.errors import StudyError
from kernels.products.gate import Verdict
from measurement.devices.ceilings import Ceiling
from measurement.devices.energy import Energy
from measurement.devices.session import CellError
from measurement.sampling.worker import Opening, Pass, Reply, TimedKernel, serve
from study.cells import Cell

# A fresh interpreter: a forked one would inherit a CUDA that it must not use.
_SPAWN = multiprocessing.get_context("spawn")
# A driver that has to end an endless kernel first takes its time.
_END_S = 60.0


class WorkerError(Exception):
    """The worker process gave no answer; the message says why."""


class Supervisor:
    """One device in a worker process. Its methods are those of `measurement.sampling.worker.Worker`.

    A cell's crash, hang or error of the device raises CellError once the process has been started
    afresh; StudyError if the device does not come back. Use it as a context manager. `busy_s` adds
    up what the device spent in transfers and kernels.
    """

    def __init__(self, label: str, opening: Opening, limit_s: float) -> None:
        """`limit_s` is how long an answer may take, in seconds."""
        self._label = label
        self._opening = opening
        self._limit_s = limit_s
        self.busy_s = 0.0
        self._process: SpawnProcess | None = None

    def __enter__(self) -> "Supervisor":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process is None:
            return
        if kind is None:
            self._close()
        self._end()

    def plan(self, cell: Cell) -> tuple[str | None, str | None]:
        """Return the kind of build that runs the cell, and the limit that forbids it (or None)."""
        found: tuple[str | None, str | None] = self._ask(cell, "plan", cell)
        return found

    def check(self, cell: Cell) -> tuple[Pass, Verdict]:
        """Run the cell once on a poisoned C and judge the product."""
        found: tuple[Pass, Verdict] = self._ask(cell, "check", cell)
        return found

    def sample(self, cell: Cell) -> Pass:
        """Run the cell once, after a warm-up where its run is short."""
        found: Pass = self._ask(cell, "sample", cell)
        return found

    def kernel_time(self, cell: Cell, flushed: bool) -> TimedKernel:
        """Time the cell's kernel alone."""
        found: TimedKernel = self._ask(cell, "kernel_time", cell, flushed)
        return found

    def energy(self, cell: Cell, length_s: float) -> Energy:
        """Read the energy of the cell's kernel, over launches for about `length_s`."""
        found: Energy = self._ask(cell, "energy", cell, length_s)
        return found

    def idle_power_w(self, length_s: float) -> float:
        """Read the power of the device at rest, over `length_s`."""
        found: float = self._ask("the idle power", "idle_power_w", length_s)
        return found

    def ceilings(self) -> list[Ceiling]:
        """Measure the device's ceilings."""
        found: list[Ceiling] = self._ask("the ceilings", "ceilings")
        return found

    def begin_repeat(self, cell: Cell) -> None:
        """Let the device run the cell over and over, until `end_repeat`."""
        self._connection.send(("repeat", [cell]))

    def end_repeat(self, cell: Cell) -> int:
        """Return how often the device ran the cell since `begin_repeat`."""
        # Whatever is sent ends the repeating, and is answered in its turn.
        self._connection.send(("plan", [cell]))
        count: int = self._receive(cell)
        self._receive(cell)
        return count

    def _ask(self, subject: Cell | str, name: str, *arguments: object) -> Any:
        with contextlib.suppress(OSError):  # a worker that has died is noticed right below
            self._connection.send((name, list(arguments)))
        return self._receive(subject)

    def _receive(self, subject: Cell | str) -> Any:
        """Return the result of the answer that is due; `subject` is what it was asked for."""
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
        """Wait for an answer; raises WorkerError, or what went wrong outside of any cell."""
        if not self._connection.poll(self._limit_s):
            self._end()
            raise WorkerError(
                f"no answer within {self._limit_s:g} s (study.protocol.hang_limit_s): the process "
                "was ended"
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
        """Start the process; raises StudyError if the device cannot be had."""
        self._connection, other = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=serve, args=(other, self._opening), daemon=True)
        self._process.start()
        other.close()
        try:
            self._reply()
        except WorkerError as lost:
            raise StudyError(f"{self._label}: does not start: {lost}") from None

    def renew(self) -> None:
        """Go on in a fresh process; raises StudyError if the device does not come back."""
        self._close()
        self._restart("a process that was to be renewed", "it ended as told")

    def _close(self) -> None:
        assert self._process
        with contextlib.suppress(OSError):
            self._connection.send(("close", []))
        self._process.join(_END_S)

    def _restart(self, subject: Cell | str, reason: str) -> None:
        """Start afresh after a fault; raises StudyError if the device does not come back."""
        self._end()
        try:
            self.start()
        except StudyError as error:
            raise StudyError(
                f"{self._label}: does not come back after {subject} ({reason}): {error}; what was "
                "measured is kept: run the same command again when the device is well"
            ) from None

    def _end(self) -> None:
        """End the process whatever it is doing."""
        self._connection.close()
        if self._process and self._process.is_alive():
            self._process.kill()
            self._process.join(_END_S)

    def _death(self) -> str:
        """Say how the process ended that has closed its end of the pipe."""
        assert self._process
        self._process.join(_END_S)
        status = self._process.exitcode
        if status is not None and status < 0:
            return f"the process that measures was ended by signal {-status}"
        return f"the process that measures ended with status {status}"
