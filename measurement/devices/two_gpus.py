"""Runs in pieces on two GPUs: each GPU copies and multiplies half of the rows of A and C.

Each GPU copies one half of B from the host and sends it to the other GPU. If the GPUs cannot reach
each other's memory, each copies all of B.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import repeat, zip_longest
from typing import Any

import numpy as np

from kernels.catalog.limits import DeviceLimits
from kernels.products.shape import Shape
from measurement.devices.buffers import Work
from measurement.devices.flows import Division, Launcher, enqueue, order
from measurement.devices.launching import Cubins, Launches

# Parts of a half of B: the other GPU gets each while the next one crosses the link.
_PARTS = 4


class Lane:
    """One of the two GPUs: its context, which is current here, its streams, and its launches."""

    def __init__(self, cuda: Any, context: Any, launches: Launches) -> None:
        """Create streams; `cuda` is `pycuda.driver`."""
        self.context, self.launches = context, launches
        self.up, self.kernels, self.down, self.across = (cuda.Stream() for _ in range(4))
        self.sent = cuda.Event()

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make the context of this GPU current within the block."""
        self.context.push()
        try:
            yield
        finally:
            self.context.pop()


def open_lane(
    cuda: Any, device: Any, cubins: Cubins, limits: DeviceLimits, sizes: Sequence[int]
) -> Lane:
    """Create a context on another GPU, with buffers of these sizes; this context stays current."""
    context = device.make_context()
    try:
        on_device = [cuda.mem_alloc(size) for size in sizes]
        return Lane(cuda, context, Launches(cuda, cubins, limits, cuda.Stream(), on_device))
    except cuda.Error:
        context.detach()
        raise
    finally:
        context.pop()


class TwoGpus:
    """Executes runs on two GPUs; `reach`: each GPU can access the memory of the other."""

    def __init__(self, cuda: Any, lanes: tuple[Lane, Lane], reach: bool) -> None:
        """Enable peer access if `reach` is set; the first lane belongs to the session."""
        self._cuda, self._reach = cuda, reach
        self.lanes: tuple[Lane, ...] = lanes
        if reach:
            for lane, other in (lanes, lanes[::-1]):
                with lane.current():
                    cuda.Context.enable_peer_access(other.context)

    def close(self) -> None:
        """Destroy the second GPU's context, after everything in it."""
        context = self.lanes[1].context
        context.push()
        self.lanes = self.lanes[:1]
        context.pop()
        context.detach()

    def ready(
        self,
        shape: Shape,
        work: Work,
        rows: list[list[tuple[int, int]]],
        launchers: Sequence[Launcher],
        prepares: Sequence[Callable[[Any], Callable[[], None]]],
    ) -> Callable[[], None]:
        """Return a function that executes one run and waits for its end.

        `rows`, `launchers` and `prepares` have one entry per GPU; `rows` has its pieces.
        """
        cuda, b = self._cuda, work.b.view(np.uint8)
        each = []
        for lane, part, launcher, prepare in zip(
            self.lanes, rows, launchers, prepares, strict=True
        ):
            with lane.current():
                on_device, streams = lane.launches.on_device, repeat(lane.kernels)
                division = Division(shape, work, on_device, part, launcher)
                each.append((lane, division.pieces(streams), prepare(lane.kernels)))
        turns = [*zip_longest(*(pieces for _, pieces, _ in each))]

        def run() -> None:
            for number, lane in enumerate(self.lanes):
                with lane.current():
                    self._copy_b(b, number)
            for (lane, _, begin), other in zip(each, self.lanes[::-1], strict=True):
                with lane.current():
                    lane.kernels.wait_for_event(other.sent)
                    begin()
            for turn in turns:
                for lane, piece in zip(self.lanes, turn, strict=True):
                    if piece:
                        with lane.current():
                            enqueue(cuda, piece, lane.up, lane.down)
            for lane in self.lanes:
                with lane.current():
                    lane.down.synchronize()

        return run

    def _copy_b(self, b: Any, number: int) -> None:
        """Copy B to a GPU: half of it, which the GPU sends to the other one, or all of it."""
        lane, other = self.lanes[number], self.lanes[1 - number]
        b_here, others = (int(each.launches.on_device[1]) for each in (lane, other))
        count = 2 * _PARTS
        ends = [len(b) * part // count // 4 * 4 for part in range(count + 1)]
        parts = range(number * _PARTS, (number + 1) * _PARTS) if self._reach else range(count)
        for begin, end in ((ends[part], ends[part + 1]) for part in parts):
            if begin == end:
                continue
            self._cuda.memcpy_htod_async(b_here + begin, b[begin:end], lane.up)
            if self._reach:
                order(self._cuda, lane.up, lane.across)
                contexts = (other.context, lane.context)
                self._cuda.memcpy_peer_async(
                    others + begin, b_here + begin, end - begin, *contexts, lane.across
                )
        order(self._cuda, lane.up, lane.kernels)
        lane.sent.record(lane.across)
