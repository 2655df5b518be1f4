"""What measuring asks of a device: the boundary at which a fake device can stand in."""

from dataclasses import dataclass
from types import TracebackType
from typing import Protocol

from kernels.products.matrices import Matrix
from measurement.devices.ceilings import Ceiling
from measurement.devices.energy import Energy
from measurement.devices.telemetry import Telemetry
from study.cells import Cell


@dataclass(frozen=True)
class Timing:
    """Times of one end-to-end run, in seconds; the parts are None on a CPU.

    `total_s` is taken by the host's monotonic clock around copies, launch and synchronisation,
    `host_s` by the same clock around what the host does with the matrices itself (None: nothing),
    the other parts by CUDA events in the stream: `kernel_s` has the host's way to the GPU in it,
    which `DeviceSession.held` has not.
    """

    total_s: float
    host_s: float | None = None
    h2d_s: float | None = None
    kernel_s: float | None = None
    d2h_s: float | None = None

    @property
    def busy_s(self) -> float:
        """Seconds in transfers and kernel; on a CPU in the product."""
        if self.h2d_s is None or self.kernel_s is None or self.d2h_s is None:
            return self.total_s
        return self.h2d_s + self.kernel_s + self.d2h_s


@dataclass(frozen=True)
class KernelTime:
    """A kernel without the host in it: how many launches, and the mean time of one in seconds."""

    launches: int
    kernel_s: float


class DeviceSession(Protocol):
    """One device, ready to run cells; a context manager that gives the device back."""

    @property
    def telemetry(self) -> Telemetry:
        """What watches the device during passes."""

    def __enter__(self) -> "DeviceSession":
        """Take the device; raises StudyError where it cannot be had."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Give the device back."""

    def not_launchable(self, cell: Cell) -> str | None:
        """Say which limit keeps the cell from running on this device; None if it runs."""

    def build(self, cell: Cell) -> str | None:
        """Return the kind of build that runs the cell: ``exact``, ``guarded``; None on a CPU."""

    def poison(self, cell: Cell) -> None:
        """Fill C with poison (`matrices.POISON_WORD`) wherever the cell could leave it unwritten.

        Raises CellError.
        """

    def run(self, cell: Cell) -> Timing:
        """Run one end-to-end run; raises CellError."""

    def product(self, cell: Cell) -> Matrix:
        """Return C of the last run of the cell, (batch, m, n)."""

    def kernel_time(self, cell: Cell, flushed: bool) -> KernelTime:
        """Time the cell's kernel alone; raises CellError.

        It finds in the caches what the launch before left there, or (`flushed`) nothing.
        """

    def energy(self, cell: Cell, length_s: float) -> Energy:
        """Launch the cell's kernel back to back for about `length_s`; raises CellError."""

    def idle_power_w(self, length_s: float) -> float:
        """Return the GPU's power with nothing running, over `length_s`; raises CellError."""

    def ceilings(self) -> tuple[list[Ceiling], float]:
        """Measure what the device and the host's clock can do at best; raises CellError.

        Returns the seconds that the device was busy for it, too.
        """


class CellError(Exception):
    """A cell that could not run; the message is the reason that the recording keeps."""


class DeviceError(CellError):
    """A cell whose fault may have spoiled the device for others: it has to be taken anew."""
