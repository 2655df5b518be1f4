"""The interface of a device, which tests implement by a fake device."""

from dataclasses import dataclass
from types import TracebackType
from typing import Protocol

from kernels.products.change import SAME, STEP_BYTES, Change
from kernels.products.matrices import Matrix
from measurement.devices.ceilings import Ceiling
from measurement.devices.energy import Energy
from measurement.devices.pieces import Setting, Trial
from measurement.devices.telemetry import Telemetry
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
        """Seconds in transfers and kernel; on a CPU, in the product."""
        if self.h2d_s is None or self.kernel_s is None or self.d2h_s is None:
            return self.total_s
        return self.h2d_s + self.kernel_s + self.d2h_s


@dataclass(frozen=True)
class KernelTime:
    """A kernel-only time: the number of launches, and the mean time per launch in seconds."""

    launches: int
    kernel_s: float


# Rows of A and of B, numbered through the batch.
Rows = tuple[tuple[int, ...], tuple[int, ...]]


def step_bytes(cell: Cell) -> int:
    """Return the bytes by which A and B of a launch begin after A and B of the launch before.

    Padded and transposed copies always begin at the start.
    """
    return 0 if cell.product.entry.host_step else STEP_BYTES


class DeviceSession(Protocol):
    """One device that runs cells; a context manager that releases the device."""

    @property
    def telemetry(self) -> Telemetry:
        """The telemetry of the device during runs."""

    def __enter__(self) -> "DeviceSession":
        """Open the device; raise StudyError if it is not available."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Release the device."""

    def not_launchable(self, cell: Cell) -> str | None:
        """Return the limit that prevents the cell from running on this device; None if it runs."""

    def build(self, cell: Cell) -> str | None:
        """Return the build of the cell's kernel: ``exact`` or ``guarded``; None on a CPU."""

    def poison(self, cell: Cell) -> None:
        """Fill C with `matrices.POISON_WORD`, to detect unwritten elements; raise CellError."""

    def run(self, cell: Cell, change: Change = SAME) -> Timing:
        """Execute one end-to-end run, with changed inputs; raise CellError."""

    def trials(self, cell: Cell) -> list[Trial]:
        """Time a run in pieces, and its copies, in all settings; raise CellError."""

    def use(self, cell: Cell, setting: Setting) -> None:
        """Divide the runs of a cell in pieces in this way."""

    def product(self, cell: Cell, kernel_only: bool = False) -> Matrix:
        """Return C of the cell's last run or checked kernel-only sample, (batch, m, n)."""

    def operands(self, cell: Cell, change: Change, rows: Rows, later: int) -> str:
        """Return the hash of rows of A and of B after a run (`kernels.products.change.digest`).

        They begin `later` bytes after the place in the change.
        """

    def kernel_time(self, cell: Cell, flushed: bool, change: Change = SAME) -> KernelTime:
        """Return the cell's kernel-only time; raise CellError.

        Caches are in the state after the launch before or, if `flushed`, contain no A, B and C.
        """

    def energy(self, cell: Cell, length_s: float) -> Energy:
        """Measure energy over back-to-back launches for about `length_s`; raise CellError."""

    def idle_power_w(self, length_s: float) -> float:
        """Return the GPU's mean idle power over `length_s`; raise CellError."""

    def ceilings(self) -> tuple[list[Ceiling], float]:
        """Measure the ceilings of device and clock; raise CellError.

        Return also the seconds that the device was busy.
        """


class CellError(Exception):
    """A cell failed; the recording stores the message as the reason."""


class DeviceError(CellError):
    """A cell failed and may have broken the context: the device must be reopened."""
