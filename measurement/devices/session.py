"""The interface of a device: it declares every method that GPU, CPU and fakes implement."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NoReturn, Self

from kernels.products.matrices import Matrix
from measurement.devices.ceilings import Ceiling
from measurement.devices.errors import CellError
from measurement.devices.observers import Observer, Observers
from measurement.devices.pieces import Setting, Trial
from measurement.devices.second_check import SAME, Change
from measurement.devices.throughput import Batch
from study.cells import Cell


@dataclass(frozen=True)
class Timing:
    """Times of one end-to-end run, in seconds; the parts are None on a CPU.

    The host's monotonic clock measures `total_s` (copies, launch and synchronisation) and `host_s`
    (host steps; None if there are none). CUDA events measure the other parts: `kernel_s` is the
    in-run kernel time and includes launch latency, unlike `DeviceSession.kernel_time`.
    """

    total_s: float
    host_s: float | None = None
    h2d_s: float | None = None
    kernel_s: float | None = None
    d2h_s: float | None = None

    @property
    def busy_s(self) -> float:
        """The seconds in transfers and kernel; on a CPU, in the product."""
        if self.h2d_s is None or self.kernel_s is None or self.d2h_s is None:
            return self.total_s
        return self.h2d_s + self.kernel_s + self.d2h_s


@dataclass(frozen=True)
class KernelTime:
    """A kernel-only time: the number of launches, and the mean time per launch in seconds.

    `queued_s` is the mean host time to enqueue a launch, which delays kernels in end-to-end runs.
    """

    launches: int
    kernel_s: float
    queued_s: float = field(default=0.0, compare=False)


class DeviceSession:
    """One device that runs cells; a context manager that releases the device.

    To add a method, declare it here and implement it where a device has it; recorder and worker
    forward any method. A method that a device lacks raises CellError. `busy_s` sums the seconds in
    transfers and kernels of trials and ceilings; the worker adds those of runs.
    """

    observers = Observers()
    busy_s = 0.0

    def __enter__(self) -> Self:
        """Open the device; raise StudyError if it is not available."""
        return self

    def __exit__(self, *_: object) -> None:
        """Release the device."""

    def not_launchable(self, cell: Cell) -> str | None:
        """Return the limit that prevents the cell from running on this device; None if it runs."""
        self._lacks("not_launchable")

    def build(self, cell: Cell) -> str | None:
        """Return the cell's build, ``exact`` or ``guarded``; None for a library or a CPU."""
        return None

    def poison(self, cell: Cell) -> None:
        """Fill C with `matrices.POISON_WORD`, to detect unwritten elements; raise CellError."""
        self._lacks("poison")

    def run(self, cell: Cell, change: Change = SAME, observers: Sequence[Observer] = ()) -> Timing:
        """Execute one end-to-end run, with changed inputs; raise CellError."""
        self._lacks("run")

    def product(self, cell: Cell, kernel_only: bool = False) -> Matrix:
        """Return C, (batch, m, n), of the cell's last run or last checked kernel-only sample."""
        self._lacks("product")

    def trials(self, cell: Cell) -> list[Trial]:
        """Time a run in pieces, and its copies only, in all settings; raise CellError."""
        self._lacks("trials")

    def throughput(self, cell: Cell, batches: Sequence[Batch]) -> tuple[list[Trial], list[Matrix]]:
        """Time batches of products over streams; return times and last C; raise CellError."""
        self._lacks("throughput")

    def use(self, settings: dict[Cell, Setting]) -> None:
        """Divide the runs of these cells into pieces by these settings."""
        self._lacks("use")

    def kernel_time(
        self, cell: Cell, flushed: bool, change: Change = SAME, observers: Sequence[Observer] = ()
    ) -> KernelTime:
        """Return the cell's kernel-only time, with warm or `flushed` caches; raise CellError."""
        self._lacks("kernel_time")

    def load(
        self, cell: Cell, ramp_s: float, length_s: float, observers: Sequence[Observer]
    ) -> float:
        """Launch the kernel back to back for about `length_s`; return the mean seconds per launch.

        The launches of the first `ramp_s` are not counted. Raise CellError.
        """
        self._lacks("load")

    def idle(self, length_s: float, observers: Sequence[Observer]) -> None:
        """Leave the open device idle for `length_s`, after a pause; raise CellError."""
        self._lacks("idle")

    def ceilings(self) -> list[Ceiling]:
        """Measure the ceilings of device and clock; raise CellError."""
        self._lacks("ceilings")

    def _lacks(self, verb: str) -> NoReturn:
        raise CellError(f"{type(self).__name__}: this device has no {verb}")
