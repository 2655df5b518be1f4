"""How A, B and C move to and from the GPU in a run: one class for each method."""

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
    """Enqueue the copies of those of the matrices A and B that `names` lists."""
    a_device, b_device, _ = on_device
    if "a" in names:
        cuda.memcpy_htod_async(a_device, work.a, stream)
    if "b" in names:
        cuda.memcpy_htod_async(b_device, work.b, stream)


class Copied:
    """Copies matrices between host memory and the GPU's buffers; some may be on the GPU already.

    `before` and `after` are not timed; the other methods are.
    """

    def __init__(
        self, cuda: Any, stream: Any, location: Location, on_device: Sequence[Any], work: Work
    ) -> None:
        """`cuda` is `pycuda.driver`; `on_device` are the buffers of A, B and C."""
        self._cuda, self._stream, self._location, self._work = cuda, stream, location, work
        self.on_device = on_device

    def before(self) -> None:
        """Copy the matrices to the GPU that a run does not copy."""
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
        """Make C readable on the host, once the stream has finished."""

    def after(self) -> None:
        """Copy C to the host for the check, if the run leaves it on the GPU."""
        if not self._location.copies_out:
            self._to_host()
            self._stream.synchronize()

    def _to_host(self) -> None:
        self._cuda.memcpy_dtoh_async(self._work.c, self.on_device[2], self._stream)


class Registered(Copied):
    """Pins pageable memory at the start of each run, copies, and unpins it at the end."""

    def move_in(self) -> None:
        """Pin A, B and C; enqueue the copies of A and B."""
        for matrix in (self._work.a, self._work.b, self._work.c):
            pin(matrix)
        super().move_in()

    def finish(self) -> None:
        """Unpin the memory."""
        for matrix in (self._work.a, self._work.b, self._work.c):
            unpin(matrix)


class Managed:
    """Uses managed memory: its pages move to whichever processor reads or writes them."""

    def __init__(
        self, cuda: Any, stream: Any, location: Location, on_device: Sequence[Any], work: Work
    ) -> None:
        """`cuda` is `pycuda.driver`; the buffers `on_device` are not used."""
        self._stream, self._location = stream, location
        self._gpu = current_gpu() if location.prefetched else _HOST
        self._matrices = (work.a, work.b, work.c)
        self.on_device = [matrix.ctypes.data for matrix in self._matrices]

    def before(self) -> None:
        """Write to each page on the host, so that all pages are there."""
        for matrix in self._matrices:
            words = _one_per_page(matrix)
            words[:] = words.copy()

    def move_in(self) -> None:
        """Request that A, B and C move to the GPU; the kernel writes C."""
        if self._location.prefetched:
            for matrix in self._matrices:
                prefetch(matrix, self._gpu, self._stream.handle)

    def move_out(self) -> None:
        """Request that C move to the host."""
        if self._location.prefetched:
            prefetch(self._matrices[2], _HOST, self._stream.handle)

    def finish(self) -> None:
        """Read each page of C on the host."""
        _one_per_page(self._matrices[2]).sum()

    def after(self) -> None:
        """Do nothing, because C is already on the host."""


Moves = Copied | Managed


def moves_of(
    cuda: Any, stream: Any, location: Location, on_device: Sequence[Any], work: Work
) -> Moves:
    """Return the object that moves the matrices of a run; see `Copied`."""
    if location.memory == "managed":
        return Managed(cuda, stream, location, on_device, work)
    kind = Registered if location.registered else Copied
    return kind(cuda, stream, location, on_device, work)


def _one_per_page(matrix: Matrix) -> Matrix:
    return matrix[:: _PAGE_BYTES // matrix.itemsize]
