"""Runs in pieces from pageable memory: host threads copy it through rings of pinned memory.

The driver copies pageable memory in one thread, far slower than the link.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import repeat
from typing import Any

import numpy as np

from kernels.products.matrices import Matrix
from kernels.products.shape import Shape
from measurement.devices.buffers import Bytes, Work
from measurement.devices.flows import Launcher, order, pieces_of

# Bytes per chunk, chunks per ring, and threads that fill and empty the rings: the fastest of those
# tried on a host with 16 cores.
CHUNK_BYTES = 4 * 2**20
_RING = 16
_FILLING, _EMPTYING = 8, 4
# Chunks that may still be on their way to the GPU while the next ones are filled.
_ON_THE_WAY = 2

# Device address and host memory of a chunk, and a function to call after its copy.
_Chunk = tuple[int, Bytes, Callable[[], None] | None]


class Staged:
    """Streams, rings of pinned memory, and threads, in the current context."""

    def __init__(self, cuda: Any, context: Any, stream: Any) -> None:
        """Allocate; `cuda` is `pycuda.driver`, `context` the current context."""
        self._cuda, self._context = cuda, context
        self._up, self._kernels, self._down = stream, cuda.Stream(), cuda.Stream()
        rings = [
            [(cuda.pagelocked_empty(CHUNK_BYTES, np.uint8), cuda.Event()) for _ in range(_RING)]
            for _ in range(2)
        ]
        self._upward, self._downward = rings
        self._filling, self._emptying = ThreadPoolExecutor(_FILLING), ThreadPoolExecutor(_EMPTYING)
        self._emptied: list[Future[None]] = []

    def close(self) -> None:
        """End the threads."""
        self._filling.shutdown()
        self._emptying.shutdown()

    def ready(
        self,
        shape: Shape,
        work: Work,
        on_device: Sequence[Any],
        rows: list[tuple[int, int]],
        launcher: Launcher,
        prepare: Callable[[Any], Callable[[], None]],
    ) -> Callable[[], None]:
        """Return a function that executes one run and waits for its end; see `Duplex.ready`."""
        begin = prepare(self._kernels)

        def split() -> None:
            order(self._cuda, self._up, self._kernels)
            begin()

        chunks = [*_chunks(int(on_device[1]), work.b, split)]
        for piece in pieces_of(shape, work, on_device, rows, launcher, repeat(self._kernels)):

            def multiply(piece: Any = piece) -> None:
                order(self._cuda, self._up, self._kernels)
                piece.launch()
                order(self._cuda, self._kernels, self._down)
                for address, target, _ in _chunks(piece.c_device, piece.c_host):
                    self._copy_down(address, target)

            chunks += _chunks(piece.a_device, piece.a_host, multiply)
        return lambda: self._run(chunks)

    def _run(self, chunks: list[_Chunk]) -> None:
        ahead = _RING - _ON_THE_WAY
        self._emptied.clear()
        filled = deque(self._fill(number, chunk[1]) for number, chunk in enumerate(chunks[:ahead]))
        for number, (address, source, then) in enumerate(chunks):
            filled.popleft().result()
            memory, event = self._upward[number % _RING]
            self._cuda.memcpy_htod_async(address, memory[: source.nbytes], self._up)
            event.record(self._up)
            if then:
                then()
            if number + ahead < len(chunks):
                filled.append(self._fill(number + ahead, chunks[number + ahead][1]))
        for emptied in self._emptied:
            emptied.result()

    def _fill(self, number: int, source: Bytes) -> Future[None]:
        """Let a thread fill a chunk of the ring, after its last copy to the GPU."""
        memory, event = self._upward[number % _RING]
        if number >= _RING:
            event.synchronize()
        return self._filling.submit(np.copyto, memory[: source.nbytes], source)

    def _copy_down(self, address: int, target: Bytes) -> None:
        """Enqueue a copy to the ring, and let a thread empty the chunk afterwards."""
        number = len(self._emptied)
        memory, event = self._downward[number % _RING]
        if number >= _RING:
            self._emptied[number - _RING].result()
        self._cuda.memcpy_dtoh_async(memory[: target.nbytes], address, self._down)
        event.record(self._down)
        self._emptied.append(self._emptying.submit(self._empty, event, memory, target))

    def _empty(self, event: Any, memory: Bytes, target: Bytes) -> None:
        self._context.push()  # of this thread
        try:
            event.synchronize()
        finally:
            self._context.pop()
        np.copyto(target, memory[: target.nbytes])


def _chunks(
    address: int, matrix: Matrix, then: Callable[[], None] | None = None
) -> Iterator[_Chunk]:
    """Yield the chunks of a flat matrix; `then` belongs to the last one."""
    content = matrix.view(np.uint8)
    for begin in range(0, content.nbytes, CHUNK_BYTES):
        part = content[begin : begin + CHUNK_BYTES]
        yield address + begin, part, then if begin + part.nbytes == content.nbytes else None
