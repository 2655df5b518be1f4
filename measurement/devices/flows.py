"""End-to-end runs with overlapping copies and kernels, and runs as one CUDA graph.

Both need pinned memory: the driver copies pageable memory synchronously through staging buffers.
"""

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from kernels.catalog.variant import PIECES
from kernels.products.shape import Shape
from measurement.devices.buffers import Work
from measurement.devices.session import CellError, DeviceError

# CU_STREAM_CAPTURE_MODE_THREAD_LOCAL: calls of other threads do not affect the capture.
_CAPTURE_MODE = 1
_POINTER = ctypes.c_void_p


class Pieces:
    """Runs in pieces: each stream handles some rows of A and C after the copy of B."""

    def __init__(self, cuda: Any) -> None:
        """Create streams and an event in the current context; `cuda` is `pycuda.driver`."""
        self._cuda = cuda
        self._streams = [cuda.Stream() for _ in range(PIECES)]
        self._b_copied = cuda.Event()

    def ready(
        self,
        shape: Shape,
        work: Work,
        on_device: Sequence[Any],
        rows: list[tuple[int, int]],
        launcher: Callable[[int, int, int, Any], Callable[[], None]],
    ) -> Callable[[], None]:
        """Return a function that executes one run and waits for its end.

        `rows` contains the first row and the number of rows of each piece. `launcher` gets that
        number, the device addresses of the piece's rows of A and C, and the stream.
        """
        pieces = []
        for (first, count), stream in zip(rows, self._streams, strict=False):
            a = slice(first * shape.k, (first + count) * shape.k)
            c = slice(first * shape.n, (first + count) * shape.n)
            a_device = int(on_device[0]) + a.start * work.a.itemsize
            c_device = int(on_device[2]) + c.start * work.c.itemsize
            launch = launcher(count, a_device, c_device, stream)
            pieces.append((stream, a_device, work.a[a], launch, work.c[c], c_device))

        def run() -> None:
            self._cuda.memcpy_htod_async(on_device[1], work.b, self._streams[0])
            self._b_copied.record(self._streams[0])
            for stream, a_device, a_host, launch, c_host, c_device in pieces:
                self._cuda.memcpy_htod_async(a_device, a_host, stream)
                stream.wait_for_event(self._b_copied)
                launch()
                self._cuda.memcpy_dtoh_async(c_host, c_device, stream)
            for stream, *_ in pieces:
                stream.synchronize()

        return run


class Graph:
    """A run as one CUDA graph, launched by one call.

    PyCUDA has no graphs; this class calls the driver API in the current context.
    """

    def __init__(self, stream: Any, queue: Callable[[], None]) -> None:
        """Capture the work that `queue` enqueues in `stream`; raise CellError if that fails."""
        self._stream = stream
        handle, graph, self._executable = _POINTER(stream.handle), _POINTER(), _POINTER()
        _call(CellError, "cuStreamBeginCapture_v2", handle, _CAPTURE_MODE)
        try:
            queue()
        finally:
            # A stream that is still capturing would reject all other calls.
            _call(CellError, "cuStreamEndCapture", handle, ctypes.byref(graph))
        made, flags = ctypes.byref(self._executable), ctypes.c_ulonglong(0)
        try:
            _call(CellError, "cuGraphInstantiateWithFlags", made, graph, flags)
        finally:
            _call(CellError, "cuGraphDestroy", graph)

    def run(self) -> None:
        """Execute the run and wait for its end; raise DeviceError."""
        _call(DeviceError, "cuGraphLaunch", self._executable, _POINTER(self._stream.handle))
        self._stream.synchronize()

    def close(self) -> None:
        """Destroy the executable graph."""
        _call(DeviceError, "cuGraphExecDestroy", self._executable)


def _call(kind: type[CellError], function: str, *arguments: object) -> None:
    status = getattr(_library(), function)(*arguments)
    if status:
        raise kind(f"CUDA: {function} returned error {status}")


@cache
def _library() -> Any:
    """Return the driver library, which exists wherever PyCUDA has a context."""
    return ctypes.CDLL("libcuda.so.1")
