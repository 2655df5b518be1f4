"""The CPU as a device: runs on one thread of one core, or on several threads of all cores."""

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import numpy as np

from base.errors import StudyError
from cpu_reference.catalog import variant
from cpu_reference.cores import all_cores, caches, usable_threads, wait_until_alone
from cpu_reference.library import Library
from kernels.products.matrices import POISON_WORD, Inputs, Matrix, matrices
from kernels.theory.tiles import number_of
from measurement.devices.ceilings import Ceiling, timer_ceilings
from measurement.devices.cpu_ceilings import cpu_ceilings
from measurement.devices.errors import CellError
from measurement.devices.observers import Observer, observed
from measurement.devices.second_check import SAME, Change
from measurement.devices.session import DeviceSession, Timing
from study.cells import Cell


class CpuSession(DeviceSession):
    """Runs the CPU variants on the inputs; a run has no copies, so only `total_s` is measured."""

    def __init__(self, library: Library, inputs: Inputs) -> None:
        self._library = library
        self._inputs = inputs
        self._c = np.empty(inputs.c_bytes // 4, dtype=np.float32)
        self._all_threads = usable_threads()
        self._last: Cell | None = None

    def not_launchable(self, cell: Cell) -> str | None:
        """Return why a BLAS library cannot run on this host; None if it can."""
        if not variant(cell.variant).compiled:
            try:
                self._library.blas(cell.variant)
            except StudyError as error:
                return str(error)
        return None

    def poison(self, cell: Cell) -> None:
        """Fill C with poison."""
        self.product(cell).view(np.uint32).fill(POISON_WORD)

    def run(self, cell: Cell, change: Change = SAME, observers: Sequence[Observer] = ()) -> Timing:
        """Multiply once, with inputs as `change` says, when threads of earlier runs are idle."""
        a, b = self._inputs.pair(cell.dtype, cell.shape, change.begins)
        return self._run(cell, a[0], b[0], observers)

    def _run(self, cell: Cell, a: Matrix, b: Matrix, observers: Sequence[Observer]) -> Timing:
        assert cell.threads is not None
        (c,) = self.product(cell)
        block_size = number_of(cell.block_size)
        product = self._library.prepare(cell.variant, a, b, c, block_size, cell.threads)
        if cell != self._last:
            wait_until_alone()
        self._last = cell
        with _on_cores(cell.threads), observed(observers):
            begin = time.perf_counter_ns()
            try:
                product()
            except (MemoryError, StudyError) as error:
                raise CellError(str(error)) from error
            total_ns = time.perf_counter_ns() - begin
        return Timing(total_ns / 1e9)

    def product(self, cell: Cell, kernel_only: bool = False) -> Matrix:
        """Return C, (1, m, n)."""
        return matrices(self._c, 1, cell.shape.m, cell.shape.n)

    def ceilings(self) -> list[Ceiling]:
        """Measure the ceilings of the host's clock and cores."""
        wait_until_alone()
        ceilings = timer_ceilings()
        for threads in sorted({1, self._all_threads}):
            with _on_cores(threads):
                ceilings += cpu_ceilings(self._library, caches(), threads)
        return ceilings


def _on_cores(threads: int) -> AbstractContextManager[None]:
    """Return a block in which several threads use all cores; a single thread stays on its core."""
    return all_cores() if threads > 1 else nullcontext()
