"""The CPU as a device: single thread, pinned to one core while it is timed."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from cpu_reference.library import Library
from measurement.cells import Cell
from measurement.matrices import Inputs, Matrix, square
from measurement.session import CellError, Timing


class CpuSession:
    """Runs the CPU variants on the inputs; a pass has no copies, so only its total is timed."""

    def __init__(self, library: Library, inputs: Inputs) -> None:
        self._library = library
        self._inputs = inputs
        self._c = np.empty(inputs.max_order**2, dtype=np.float32)

    def not_launchable(self, cell: Cell) -> str | None:
        """Every CPU cell can run."""
        return None

    def build(self, cell: Cell) -> str | None:
        """The CPU library has one build."""
        return None

    def poison(self, cell: Cell) -> None:
        """Fill C with NaN."""
        self.product(cell).fill(np.nan)

    def run(self, cell: Cell) -> Timing:
        """Multiply once, on one core."""
        a, b = self._inputs.pair(cell.n)
        c = self.product(cell)
        with _one_core():
            begin = time.perf_counter_ns()
            try:
                self._library.multiply(cell.variant, a, b, c, cell.block_size)
            except MemoryError as error:
                raise CellError(str(error)) from error
            total_ns = time.perf_counter_ns() - begin
        return Timing(total_ns / 1e9)

    def product(self, cell: Cell) -> Matrix:
        """Return C, (n, n)."""
        return square(self._c, cell.n)


@contextmanager
def _one_core() -> Iterator[None]:
    """Keep this thread on the last of the cores it may use (the first serves most interrupts)."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
