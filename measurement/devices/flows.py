"""Passes whose copies and kernels do not come one after the other, each by a call of its own.

Both want pinned memory: of what is pageable the host copies every byte itself.
"""

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from kernels.catalog.variant import PIECES
from kernels.products.shape import Shape
from measurement.devices.buffers import Work
from measurement.devices.session import CellError, DeviceError

# CU_STREAM_CAPTURE_MODE_THREAD_LOCAL: what other threads do meanwhile does not matter.
_CAPTURE_MODE = 1
_POINTER = ctypes.c_void_p


class Pieces:
    """Passes in pieces: rows of A and C by rows, a stream each, once B is there."""

    def __init__(self, cuda: Any) -> None:
        """`cuda` is `pycuda.driver`, with the context current in which runs run."""
        self._cuda = cuda
        self._streams = [cuda.Stream() for _ in range(PIECES)]
        self._b_there = cuda.Event()

    def ready(
        self,
        shape: Shape,
        work: Work,
        on_device: Sequence[Any],
        rows: list[tuple[int, int]],
        launcher: Callable[[int, int, int, Any], Callable[[], None]],
    ) -> Callable[[], None]:
        """Return what runs a run and waits for it.

        `rows` has the first row and the number of rows of each piece; `launcher` is given that
        number, where the rows of A and C lie on the device, and the stream.
        """
        pieces = []
        for (first, count), stream in zip(rows, self._streams, strict=False):
            a = slice(first * shape.k, (first + count) * shape.k)
            c = slice(first * shape.n, (first + count) * shape.n)
            a_there = int(on_device[0]) + a.start * work.a.itemsize
            c_there = int(on_device[2]) + c.start * work.c.itemsize
            launch = launcher(count, a_there, c_there, stream)
            pieces.append((stream, a_there, work.a[a], launch, work.c[c], c_there))

        def run() -> None:
            self._cuda.memcpy_htod_async(on_device[1], work.b, self._streams[0])
            self._b_there.record(self._streams[0])
            for stream, a_there, a_here, launch, c_here, c_there in pieces:
                self._cuda.memcpy_htod_async(a_there, a_here, stream)
                stream.wait_for_event(self._b_there)
                launch()
                self._cuda.memcpy_dtoh_async(c_here, c_there, stream)
            for stream, *_ in pieces:
                stream.synchronize()

        return run


class Graph:
    """A run that the driver was given as a whole: one call launches it.

    PyCUDA has no graphs; they are the driver's own, in the context that is current.
    """

    def __init__(self, stream: Any, queue: Callable[[], None]) -> None:
        """Record what `queue` puts into `stream`. Raises CellError where the driver cannot."""
        self._stream = stream
        handle, graph, self._pass = _POINTER(stream.handle), _POINTER(), _POINTER()
        _call(CellError, "cuStreamBeginCapture_v2", handle, _CAPTURE_MODE)
        try:
            queue()
        finally:
            # A stream that is left capturing would refuse everything else.
            _call(CellError, "cuStreamEndCapture", handle, ctypes.byref(graph))
        flags = ctypes.c_ulonglong(0)
        try:
            _call(CellError, "cuGraphInstantiateWithFlags", ctypes.byref(self._pass), graph, flags)
        finally:
            _call(CellError, "cuGraphDestroy", graph)

    def run(self) -> None:
        """Run the run and wait for it. Raises DeviceError."""
        _call(DeviceError, "cuGraphLaunch", self._pass, _POINTER(self._stream.handle))
        self._stream.synchronize()

    def close(self) -> None:
        """Give the driver's copy of the run back."""
        _call(DeviceError, "cuGraphExecDestroy", self._pass)


def _call(kind: type[CellError], function: str, *arguments: object) -> None:
    status = getattr(_library(), function)(*arguments)
    if status:
        raise kind(f"CUDA: {function} gives error {status}")


@cache
def _library() -> Any:
    """Return the driver; there is one wherever PyCUDA has a context."""
    return ctypes.CDLL("libcuda.so.1")
