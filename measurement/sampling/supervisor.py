"""The recorder's side of a worker process: requests, time limits and restarts."""

import contextlib
import multiprocessing
from multiprocessing.context import SpawnProcess
from types import TracebackType
from typing import Any

from base.errors import StudyError
from kernels.products.change import Change
from kernels.products.gate import Verdict
from kernels.products.matrices import Matrix
from measurement.devices.ceilings import Ceiling
from measurement.devices.energy import Energy
from measurement.devices.pieces import Setting, Trial
from measurement.devices.session import CellError, Rows
from measurement.sampling.second_check import SecondCheck
from measurement.sampling.worker import Opening, Reply, TimedKernel, TimedRun, serve
from study.cells import Cell

# CUDA cannot be used in a forked process.
_SPAWN = multiprocessing.get_context("spawn")
# The driver needs time to end an endless kernel.
_END_S = 60.0


class WorkerError(Exception):
    """The worker process did not answer; the message contains the reason."""


class Supervisor:
    """One device in a worker process, with the methods of `measurement.sampling.worker.Worker`.

    After a crash, hang or device error the process is restarted and CellError is raised; StudyError
    if the device is lost. Use it as a context manager. `busy_s` sums the device's time in transfers
    and kernels.
    """

    def __init__(self, label: str, opening: Opening, limit_s: float) -> None:
        """Prepare a supervisor; `limit_s` limits the time of each answer."""
        self._label = label
        self._opening = opening
        self._limit_s = limit_s
        self.busy_s = 0.0
        self._process: SpawnProcess | None = None
        self._settings: dict[Cell, Setting] = {}
        self._second = SecondCheck(opening.problems, opening.seed)

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
        """Return the build of the cell, and the limit that prevents its launch (or None)."""
        found: tuple[str | None, str | None] = self._ask(cell, "plan", cell)
        return found

    def check(self, cell: Cell) -> tuple[TimedRun, Verdict]:
        """Run the cell once on a poisoned C; return the run and the verdict on C."""
        found: tuple[TimedRun, Verdict] = self._ask(cell, "check", cell)
        return found

    def sample(self, cell: Cell, last: bool = False) -> TimedRun:
        """Run the cell once, after a warm-up if its run is short; check the product of the last."""
        change = self._second.draw(cell, last)
        found: TimedRun = self._ask(cell, "sample", cell, change)
        self._check_again(cell, change, 0, last)
        return found

    def kernel_time(self, cell: Cell, flushed: bool, last: bool = False) -> TimedKernel:
        """Measure the cell's kernel-only time; check the product of the last sample."""
        change = self._second.draw(cell, last)
        found: TimedKernel = self._ask(cell, "kernel_time", cell, flushed, change)
        self._check_again(cell, change, found.time.launches, last)
        return found

    def _check_again(self, cell: Cell, change: Change, launches: int, last: bool) -> None:
        """Check the product of a checked sample, see `SecondCheck.check`."""

        def projection(vector: Matrix) -> Matrix:
            found: Matrix = self._ask(cell, "projected", cell, vector, launches > 0)
            return found

        def evidence(change: Change, rows: Rows, later: int) -> tuple[Matrix, str]:
            found: tuple[Matrix, str] = self._ask(
                cell, "evidence", cell, change, rows, later, launches > 0
            )
            return found

        if change.checked:
            whole = projection if last else None
            self._second.check(cell, change, evidence, launches, whole)

    def prepare_checks(self) -> None:
        """Make the inputs for second checks, so that no sample waits for them."""
        _ = self._second.inputs

    @property
    def check_s(self) -> float:
        """The time of all second checks so far."""
        return self._second.seconds

    def energy(self, cell: Cell, length_s: float) -> Energy:
        """Measure the energy of the cell's kernel over about `length_s`."""
        found: Energy = self._ask(cell, "energy", cell, length_s)
        return found

    def idle_power_w(self, length_s: float) -> float:
        """Measure the device's idle power over `length_s`."""
        found: float = self._ask("the idle power", "idle_power_w", length_s)
        return found

    def ceilings(self) -> list[Ceiling]:
        """Measure the device's ceilings."""
        found: list[Ceiling] = self._ask("the ceilings", "ceilings")
        return found

    def imported(self) -> dict[str, str | None]:
        """Return the packages that user-supplied calls imported, and their versions."""
        found: dict[str, str | None] = self._ask("the imported packages", "imported")
        return found

    def trials(self, cell: Cell) -> list[Trial]:
        """Time the cell's run in pieces in all settings."""
        found: list[Trial] = self._ask(cell, "trials", cell)
        return found

    def use(self, settings: dict[Cell, Setting]) -> None:
        """Divide the runs of these cells in this way, also after a restart."""
        self._settings |= settings
        self._ask("the settings of runs in pieces", "use", self._settings)

    def begin_repeat(self, cell: Cell) -> None:
        """Start repeated runs of the cell, until `end_repeat`."""
        self._connection.send(("repeat", [cell]))

    def end_repeat(self, cell: Cell) -> int:
        """End the repeated runs; return their number."""
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
        """Return the result of the next answer; `subject` is what the request was about."""
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
        """Wait for an answer; raise WorkerError, or an error that is not a cell's."""
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
        """Kill the process if it is alive."""
        self._connection.close()
        if self._process and self._process.is_alive():
            self._process.kill()
            self._process.join(_END_S)

    def _death(self) -> str:
        """Return how the process ended."""
        assert self._process
        self._process.join(_END_S)
        status = self._process.exitcode
        if status is not None and status < 0:
            return f"the measuring process was killed by signal {-status}"
        return f"the measuring process exited with status {status}"
