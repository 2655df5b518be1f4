"""What the protocol asks of a device: the boundary at which a fake device can stand in."""

from dataclasses import dataclass
from typing import Protocol

from measurement.cells import Cell
from measurement.matrices import Matrix


@dataclass(frozen=True)
class Timing:
    """Times of one complete pass, in seconds; the parts are None on a CPU.

    `total_s` is taken by the host's monotonic clock around copies, launch and synchronisation, the
    parts by CUDA events in the stream.
    """

    total_s: float
    h2d_s: float | None = None
    kernel_s: float | None = None
    d2h_s: float | None = None


class Session(Protocol):
    """One device, ready to run cells."""

    def not_launchable(self, cell: Cell) -> str | None:
        """Say which limit keeps the cell from running on this device; None if it runs."""

    def build(self, cell: Cell) -> str | None:
        """Return the kind of build that runs the cell: ``exact``, ``guarded``; None on a CPU."""

    def poison(self, cell: Cell) -> None:
        """Fill C with NaN wherever the cell could leave it unwritten."""

    def run(self, cell: Cell) -> Timing:
        """Run one complete pass; raises CellError."""

    def product(self, cell: Cell) -> Matrix:
        """Return C of the last pass of the cell, (n, n)."""


class CellError(Exception):
    """A cell that could not run; the message is the reason that the recording keeps."""
