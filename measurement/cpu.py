"""The CPU as a device: single thread, on one core."""

import time
from types import TracebackType

import numpy as np

from cpu_reference.library import Library
from measurement.ceilings import Ceiling, timer_ceilings
from measurement.cells import Cell
from measurement.matrices import POISON_WORD, Inputs, Matrix, matrices
from measurement.session import Batch, CellError, Timing
from measurement.telemetry import NoTelemetry


class CpuSession:
    """Runs the CPU variants on the inputs; a pass has no copies, so only its total is timed."""

    def __init__(self, library: Library, inputs: Inputs) -> None:
        self.telemetry = NoTelemetry()
        self._library = library
        self._inputs = inputs
        self._c = np.empty(inputs.c_bytes // 4, dtype=np.float32)

    def __enter__(self) -> "CpuSession":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        pass

    def not_launchable(self, cell: Cell) -> str | None:
        """Every CPU cell can run."""
        return None

    def build(self, cell: Cell) -> str | None:
        """The CPU library has one build."""
        return None

    def poison(self, cell: Cell) -> None:
        """Fill C with poison."""
        self.product(cell).view(np.uint32).fill(POISON_WORD)

    def run(self, cell: Cell) -> Timing:
        """Multiply once."""
        (a,), (b,) = self._inputs.pair(cell.dtype, cell.shape)
        (c,) = self.product(cell)
        begin = time.perf_counter_ns()
        try:
            self._library.multiply(cell.variant, a, b, c, cell.block_size)
        except MemoryError as error:
            raise CellError(str(error)) from error
        return Timing((time.perf_counter_ns() - begin) / 1e9)

    def product(self, cell: Cell) -> Matrix:
        """Return C, (1, n, n)."""
        return matrices(self._c, 1, cell.n, cell.n)

    def batch(self, cell: Cell, length_s: float) -> Batch:
        """A CPU launches nothing."""
        raise CellError("a CPU has no launches to put back to back")

    def ceilings(self) -> tuple[list[Ceiling], float]:
        """Measure the host's clock; no product is computed for it."""
        return timer_ceilings(), 0.0
