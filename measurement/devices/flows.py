"""End-to-end runs with overlapping copies and kernels, and runs as one CUDA graph.

Both need pinned memory, because the driver copies pageable memory synchronously.
"""

import ctypes
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import repeat
from typing import Any, NamedTuple

from kernels.catalog.variant import PIECES
from kernels.products.matrices import Matrix
from kernels.products.shape import Shape
from measurement.devices.buffers import Work
from measurement.devices.errors import CellError, DeviceError

# CU_STREAM_CAPTURE_MODE_THREAD_LOCAL: calls of other threads do not affect the capture.
_CAPTURE_MODE = 1
_POINTER = ctypes.c_void_p
# Numbers of the driver API: a limit, an attribute of streams, and the size of its values.
_PERSISTING_L2_SIZE, _ACCESS_WINDOW, _ATTRIBUTE_BYTES = 6, 1, 64


# A function of a piece's number of rows, device addresses of its rows of A and C, and a stream.
Launcher = Callable[[int, int, int, Any], Callable[[], None]]


class Piece(NamedTuple):
    """Some rows of A and C: their device addresses, host memory, and the launch of their kernel."""

    stream: Any
    a_device: int
    a_host: Matrix
    launch: Callable[[], None]
    c_host: Matrix
    c_device: int


class Division(NamedTuple):
    """A run divided into pieces; `rows` has the first row and the number of rows of each piece."""

    shape: Shape
    work: Work
    on_device: Sequence[Any]
    rows: list[tuple[int, int]]
    launcher: Launcher

    def pieces(self, streams: Iterable[Any]) -> list[Piece]:
        """Return the pieces; each uses the next of the `streams`."""
        shape, work, on_device, rows, launcher = self
        pieces = []
        for (first, count), stream in zip(rows, streams, strict=False):
            a = slice(first * shape.k, (first + count) * shape.k)
            c = slice(first * shape.n, (first + count) * shape.n)
            a_device = int(on_device[0]) + a.start * work.a.itemsize
            c_device = int(on_device[2]) + c.start * work.c.itemsize
            launch = launcher(count, a_device, c_device, stream)
            pieces.append(Piece(stream, a_device, work.a[a], launch, work.c[c], c_device))
        return pieces


class Pieces:
    """Executes runs in pieces: after the copy of B, each stream handles some rows of A and C."""

    def __init__(self, cuda: Any) -> None:
        """Create streams and an event in the current context; `cuda` is `pycuda.driver`."""
        self._cuda = cuda
        self._streams = [cuda.Stream() for _ in range(PIECES)]
        self._b_copied = cuda.Event()

    def ready(self, division: Division) -> Callable[[], None]:
        """Return a function that executes one run and waits for its end."""
        pieces = division.pieces(self._streams)
        b_device, b = division.on_device[1], division.work.b

        def run() -> None:
            self._cuda.memcpy_htod_async(b_device, b, self._streams[0])
            self._b_copied.record(self._streams[0])
            for piece in pieces:
                self._cuda.memcpy_htod_async(piece.a_device, piece.a_host, piece.stream)
                piece.stream.wait_for_event(self._b_copied)
                piece.launch()
                self._cuda.memcpy_dtoh_async(piece.c_host, piece.c_device, piece.stream)
            for piece in pieces:
                piece.stream.synchronize()

        return run


def order(cuda: Any, earlier: Any, later: Any) -> None:
    """Let the stream `later` wait for all work enqueued so far in the stream `earlier`."""
    event = cuda.Event()
    event.record(earlier)
    later.wait_for_event(event)


def enqueue(cuda: Any, piece: Piece, up: Any, down: Any) -> None:
    """Enqueue a piece: its copies in the streams `up` and `down`, its kernel in its own stream."""
    cuda.memcpy_htod_async(piece.a_device, piece.a_host, up)
    order(cuda, up, piece.stream)
    piece.launch()
    order(cuda, piece.stream, down)
    cuda.memcpy_dtoh_async(piece.c_host, piece.c_device, down)


def duplex(
    cuda: Any, stream: Any, division: Division, prepare: Callable[[Any], Callable[[], None]]
) -> Callable[[], None]:
    """Return a function that enqueues a run in pieces, with one stream per copy direction.

    B is copied first; then pieces of A are copied in while pieces of C are copied back. All work
    begins and ends in `stream`, so that a `Graph` can capture it. `prepare(stream)` returns a
    launch on B; `cuda` is `pycuda.driver`.
    """
    kernels, down = cuda.Stream(), cuda.Stream()
    pieces = division.pieces(repeat(kernels))
    begin = prepare(kernels)
    b_device, b = division.on_device[1], division.work.b

    def queue() -> None:
        cuda.memcpy_htod_async(b_device, b, stream)
        order(cuda, stream, kernels)
        begin()
        for piece in pieces:
            enqueue(cuda, piece, stream, down)
        order(cuda, down, stream)

    return queue


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
        """Launch the graph and wait for its end; raise DeviceError."""
        _call(DeviceError, "cuGraphLaunch", self._executable, _POINTER(self._stream.handle))
        self._stream.synchronize()

    def close(self) -> None:
        """Destroy the executable graph."""
        _call(DeviceError, "cuGraphExecDestroy", self._executable)


def reset_persisting_l2(stream: int) -> None:
    """Undo L2 settings of other code: persisting lines, their share, the access window of a stream.

    GPUs without persisting lines return errors, which are ignored.
    """
    _library().cuCtxResetPersistingL2Cache()
    _library().cuCtxSetLimit(_PERSISTING_L2_SIZE, ctypes.c_size_t(0))
    window = ctypes.create_string_buffer(_ATTRIBUTE_BYTES)
    _library().cuStreamSetAttribute(_POINTER(stream), _ACCESS_WINDOW, window)


def pin(matrix: Matrix) -> None:
    """Pin pageable memory; raise DeviceError. PyCUDA's own function fails with NumPy 2."""
    address, size = _POINTER(matrix.ctypes.data), ctypes.c_size_t(matrix.nbytes)
    _call(DeviceError, "cuMemHostRegister_v2", address, size, 0)


def unpin(matrix: Matrix) -> None:
    """Release memory that `pin` pinned; raise DeviceError."""
    _call(DeviceError, "cuMemHostUnregister", _POINTER(matrix.ctypes.data))


def prefetch(matrix: Matrix, device: int, stream: int) -> None:
    """Enqueue a move of managed memory to a GPU, or to the host (-1); raise DeviceError."""
    address, size = _POINTER(matrix.ctypes.data), ctypes.c_size_t(matrix.nbytes)
    _call(DeviceError, "cuMemPrefetchAsync", address, size, device, _POINTER(stream))


def current_gpu() -> int:
    """Return the driver's index of the GPU to which the current context belongs."""
    device = ctypes.c_int()
    _call(DeviceError, "cuCtxGetDevice", ctypes.byref(device))
    return device.value


def has_context(index: int) -> bool:
    """Return whether this process opened the primary context of a GPU."""
    flags, active = ctypes.c_uint(), ctypes.c_int()
    _library().cuDevicePrimaryCtxGetState(index, ctypes.byref(flags), ctypes.byref(active))
    return bool(active.value)


def _call(kind: type[CellError], function: str, *arguments: object) -> None:
    status = getattr(_library(), function)(*arguments)
    if status:
        raise kind(f"CUDA: {function} returned error {status}")


@cache
def _library() -> Any:
    """Return the CUDA driver library, which exists wherever PyCUDA has a context."""
    return ctypes.CDLL("libcuda.so.1")
