"""Runs in pieces from pageable memory, which host threads copy through rings of pinned memory.

The driver would copy pageable memory in one thread, which is far slower than the link.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import repeat
from threading import Barrier
from typing import Any

import numpy as np

from cpu_reference.cores import CORES
from kernels.products.matrices import Matrix
from measurement.devices.buffers import Bytes
from measurement.devices.flows import Division, order
from measurement.devices.pieces import CHUNKS, Setting

_RING = 16  # chunks per ring
# Chunks that may still be on their way to the GPU while the next ones are filled.
_ON_THE_WAY = 2

# Device address and host memory of a chunk, and a function to call after its copy.
_Chunk = tuple[int, Bytes, Callable[[], None] | None]


class Staged:
    """Executes runs in pieces from pageable memory, in one context."""

    def __init__(self, cuda: Any, context: Any, stream: Any) -> None:
        """Allocate the rings; `cuda` is `pycuda.driver`, `context` the current context."""
        self._cuda, self._context = cuda, context
        self._up, self._kernels, self._down = stream, cuda.Stream(), cuda.Stream()
        self._upward, self._downward = (
            (
                cuda.pagelocked_empty(_RING * CHUNKS[-1], np.uint8),
                [cuda.Event() for _ in range(_RING)],
            )
            for _ in range(2)
        )
        self._chunk_bytes = CHUNKS[-1]
        self._every: dict[int | None, tuple[ThreadPoolExecutor, ...]] = {}  # by number of threads
        self._pools: tuple[ThreadPoolExecutor, ...] = ()
        self._emptied: list[Future[None]] = []

    def close(self) -> None:
        """End the threads."""
        for pools in self._every.values():
            for pool in pools:
                pool.shutdown()

    def ready(
        self, division: Division, prepare: Callable[[Any], Callable[[], None]], setting: Setting
    ) -> Callable[[], None]:
        """Return a function that executes one run and waits for its end; see `duplex`."""
        size = setting.chunk_bytes or CHUNKS[-1]
        begin = prepare(self._kernels)

        def split() -> None:
            order(self._cuda, self._up, self._kernels)
            begin()

        chunks = [*_chunks(int(division.on_device[1]), division.work.b, size, split)]
        for piece in division.pieces(repeat(self._kernels)):

            def multiply(piece: Any = piece) -> None:
                order(self._cuda, self._up, self._kernels)
                piece.launch()
                order(self._cuda, self._kernels, self._down)
                for address, target, _ in _chunks(piece.c_device, piece.c_host, size):
                    self._copy_down(address, target)

            chunks += _chunks(piece.a_device, piece.a_host, size, multiply)

        pools = self._threads(setting)

        def run() -> None:
            self._chunk_bytes, self._pools = size, pools
            self._run(chunks)

        return run

    def _threads(self, setting: Setting) -> tuple[ThreadPoolExecutor, ...]:
        """Return started threads that fill or empty chunks; they may run on all cores."""
        if setting.staging_threads not in self._every:
            counts = (setting.filling_threads, setting.emptying_threads)
            self._every[setting.staging_threads] = tuple(map(_started, counts))
        return self._every[setting.staging_threads]

    def _run(self, chunks: list[_Chunk]) -> None:
        ahead = _RING - _ON_THE_WAY
        self._emptied.clear()
        filled = deque(self._fill(number, chunk[1]) for number, chunk in enumerate(chunks[:ahead]))
        for number, (address, source, then) in enumerate(chunks):
            filled.popleft().result()
            memory, event = self._slot(self._upward, number)
            self._cuda.memcpy_htod_async(address, memory[: source.nbytes], self._up)
            event.record(self._up)
            if then:
                then()
            if number + ahead < len(chunks):
                filled.append(self._fill(number + ahead, chunks[number + ahead][1]))
        for emptied in self._emptied:
            emptied.result()

    def _slot(self, ring: tuple[Bytes, list[Any]], number: int) -> tuple[Bytes, Any]:
        at = number % _RING
        return ring[0][at * self._chunk_bytes : (at + 1) * self._chunk_bytes], ring[1][at]

    def _fill(self, number: int, source: Bytes) -> Future[None]:
        """Let a thread fill a chunk of the ring, once its previous copy to the GPU has ended."""
        memory, event = self._slot(self._upward, number)
        if number >= _RING:
            event.synchronize()
        return self._pools[0].submit(np.copyto, memory[: source.nbytes], source)

    def _copy_down(self, address: int, target: Bytes) -> None:
        """Enqueue a copy from the GPU to the ring, after which a thread empties the chunk."""
        number = len(self._emptied)
        memory, event = self._slot(self._downward, number)
        if number >= _RING:
            self._emptied[number - _RING].result()
        self._cuda.memcpy_dtoh_async(memory[: target.nbytes], address, self._down)
        event.record(self._down)
        self._emptied.append(self._pools[1].submit(self._empty, event, memory, target))

    def _empty(self, event: Any, memory: Bytes, target: Bytes) -> None:
        self._context.push()  # makes the context current in this thread
        try:
            event.synchronize()
        finally:
            self._context.pop()
        np.copyto(target, memory[: target.nbytes])


def _started(count: int) -> ThreadPoolExecutor:
    """Return threads that are already started, because a start takes about a millisecond."""
    pool = ThreadPoolExecutor(count, initializer=os.sched_setaffinity, initargs=(0, CORES))
    all_started = Barrier(count)
    wait([pool.submit(all_started.wait) for _ in range(count)])
    return pool


def _chunks(
    address: int, matrix: Matrix, size: int, then: Callable[[], None] | None = None
) -> Iterator[_Chunk]:
    """Yield the chunks of a flat matrix; `then` is called after the last one."""
    content = matrix.view(np.uint8)
    for begin in range(0, content.nbytes, size):
        part = content[begin : begin + size]
        yield address + begin, part, then if begin + part.nbytes == content.nbytes else None
