"""Throughput of several products: the copies of one overlap the kernel of another.

Each of several streams has its own matrices on host and GPU, as independent products have.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np

from kernels.catalog.product import Product
from kernels.products.matrices import POISON_WORD, Matrix
from measurement.devices.buffers import Work
from measurement.devices.flows import order
from measurement.devices.launching import Launches
from measurement.devices.pieces import Trial, try_out


@dataclass(frozen=True)
class Batch:
    """A number of products of one shape over `streams`; with `same_a`, A is copied only once."""

    streams: int
    products: int
    same_a: bool = False


class _Lane(NamedTuple):
    """A stream, its matrices on the GPU and in pinned memory, and the launch of its product.

    `launch_same` uses the A of the first lane instead.
    """

    stream: Any
    on_device: Sequence[Any]
    host: Sequence[Matrix]
    launch: Callable[[], None]
    launch_same: Callable[[], None]


class Lanes:
    """The streams, with their matrices, that the batches need in the current context."""

    def __init__(self, cuda: Any, launches: Launches, product: Product, work: Work) -> None:
        """`work` has the operands that every lane copies."""
        self._cuda, self._launches, self._product, self._work = cuda, launches, product, work
        self._lanes: list[_Lane] = []

    def times(self, batches: Sequence[Batch]) -> list[Trial]:
        """Time each batch in rounds, with its products and with its copies only."""
        while len(self._lanes) < max(batch.streams for batch in batches):
            self._lanes.append(self._lane())
        runs = {
            batch: (partial(self._run, batch, multiplies=False), partial(self._run, batch))
            for batch in batches
        }
        return try_out(runs)

    @property
    def products(self) -> list[Matrix]:
        """Return the last C of each lane, as a flat array."""
        return [lane.host[2] for lane in self._lanes]

    def _lane(self) -> _Lane:
        stream, matrices = self._cuda.Stream(), (self._work.a, self._work.b, self._work.c)
        on_device = [self._cuda.mem_alloc(matrix.nbytes) for matrix in matrices]
        host = [self._cuda.pagelocked_empty(matrix.size, matrix.dtype) for matrix in matrices]
        host[0][:], host[1][:] = self._work.a, self._work.b
        host[2].view(np.uint32).fill(POISON_WORD)
        first = self._lanes[0].on_device if self._lanes else on_device
        launch, launch_same = (
            self._launches.of(self._product, stream, [a, *on_device[1:]])
            for a in (on_device[0], first[0])
        )
        return _Lane(stream, on_device, host, launch, launch_same)

    def _run(self, batch: Batch, multiplies: bool = True) -> None:
        lanes, to_gpu = self._lanes[: batch.streams], self._cuda.memcpy_htod_async
        if batch.same_a:
            first = lanes[0]
            to_gpu(first.on_device[0], first.host[0], first.stream)
            for lane in lanes[1:]:
                order(self._cuda, first.stream, lane.stream)
        for _, lane in zip(range(batch.products), cycle(lanes), strict=False):
            if not batch.same_a:
                to_gpu(lane.on_device[0], lane.host[0], lane.stream)
            to_gpu(lane.on_device[1], lane.host[1], lane.stream)
            if multiplies:
                (lane.launch_same if batch.same_a else lane.launch)()
            self._cuda.memcpy_dtoh_async(lane.host[2], lane.on_device[2], lane.stream)
        for lane in lanes:
            lane.stream.synchronize()
