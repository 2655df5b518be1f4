"""The moves of A, B and C in a run: one class per way that data reach the GPU."""

from collections.abc import Collection, Sequence
from typing import Any

from kernels.catalog.locations import Location
from kernels.products.matrices import Matrix
from measurement.devices.buffers import Work
from measurement.devices.flows import current_gpu, pin, prefetch, unpin

_PAGE_BYTES = 4096
_HOST = -1  # CU_DEVICE_CPU


def to_gpu(
    cuda: Any, stream: Any, on_device: Sequence[Any], work: Work, names: Collection[str] = "ab"
) -> None:
    """Enqueue the copies of A and B, or of those in `names`."""
    a_device, b_device, _ = on_device
    if "a" in names:
        cuda.memcpy_htod_async(a_device, work.a, stream)
    if "b" in names:
        cuda.memcpy_htod_async(b_device, work.b, stream)


class Copied:
    """Copies between host memory and the buffers of the GPU; some matrices may be there already.

    `before` and `after` are not timed, the other methods are.
    """

    def __init__(
        self, cuda: Any, stream: Any, location: Location, on_device: Sequence[Any], work: Work
    ) -> None:
        """`cuda` is `pycuda.driver`; `on_device` are the buffers of A, B and C."""
        self._cuda, self._stream, self._location, self._work = cuda, stream, location, work
        self.on_device = on_device

    def before(self) -> None:
        """Bring the matrices that no run moves to the GPU."""
        resident = {"a", "b"} - set(self._location.copied_in)
        if resident:
            to_gpu(self._cuda, self._stream, self.on_device, self._work, resident)
            self._stream.synchronize()

    def move_in(self) -> None:
        """Enqueue the copies of A and B."""
        to_gpu(self._cuda, self._stream, self.on_device, self._work, self._location.copied_in)

    def move_out(self) -> None:
        """Enqueue the copy of C."""
        if self._location.copies_out:
            self._to_host()

    def finish(self) -> None:
        """Make C readable on the host, after the work of the stream."""

    def after(self) -> None:
        """Bring a C that stays on the GPU to the host, so that it can be checked."""
        if not self._location.copies_out:
            self._to_host()
            self._stream.synchronize()

    def _to_host(self) -> None:
        self._cuda.memcpy_dtoh_async(self._work.c, self.on_device[2], self._stream)


class Registered(Copied):
    """Copies from pageable memory that each run pins, and releases at its end."""

    def move_in(self) -> None:
        """Pin A, B and C; enqueue the copies of A and B."""
        for matrix in (self._work.a, self._work.b, self._work.c):
            pin(matrix)
        super().move_in()

    def finish(self) -> None:
        """Release the memory."""
        for matrix in (self._work.a, self._work.b, self._work.c):
            unpin(matrix)


class Managed:
    """Managed memory, which the kernel uses itself; pages move to whoever reads or writes them."""

    def __init__(
        self, cuda: Any, stream: Any, location: Location, on_device: Sequence[Any], work: Work
    ) -> None:
        """`cuda` is `pycuda.driver`; the buffers `on_device` are not used."""
        self._stream, self._location = stream, location
        self._gpu = current_gpu() if location.prefetched else _HOST
        self._matrices = (work.a, work.b, work.c)
        self.on_device = [matrix.ctypes.data for matrix in self._matrices]

    def before(self) -> None:
        """Write to each page, so that all pages are on the host."""
        for matrix in self._matrices:
            words = _one_per_page(matrix)
            words[:] = words.copy()

    def move_in(self) -> None:
        """Request the moves to the GPU, also of C, which the kernel writes."""
        if self._location.prefetched:
            for matrix in self._matrices:
                prefetch(matrix, self._gpu, self._stream.handle)

    def move_out(self) -> None:
        """Request the move of C to the host."""
        if self._location.prefetched:
            prefetch(self._matrices[2], _HOST, self._stream.handle)

    def finish(self) -> None:
        """Read each page of C on the host."""
        _one_per_page(self._matrices[2]).sum()

    def after(self) -> None:
        """C is on the host."""


Moves = Copied | Managed


def moves_of(
    cuda: Any, stream: Any, location: Location, on_device: Sequence[Any], work: Work
) -> Moves:
    """Return the moves of one run; see `Copied`."""
    if location.memory == "managed":
        return Managed(cuda, stream, location, on_device, work)
    kind = Registered if location.registered else Copied
    return kind(cuda, stream, location, on_device, work)


def _one_per_page(matrix: Matrix) -> Matrix:
    return matrix[:: _PAGE_BYTES // matrix.itemsize]
