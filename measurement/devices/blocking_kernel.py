"""Kernel-only timing: a blocking kernel holds the stream until all work is enqueued.

CUDA events around a launch also capture launch latency: the GPU passes the first event before the
launch arrives. Here both events and the launch are enqueued behind a one-thread kernel
(`kernels/hold.cu`), which spins on a word in host memory until the host sets it.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from measurement.devices.errors import CellError

_LIMIT_NS = 2_000_000_000  # timeout of the blocking kernel; enqueuing takes far less


class BlockingKernel:
    """A kernel that can hold a stream of the current context."""

    def __init__(self, cuda: Any, module: Any, stream: Any) -> None:
        """Use `pycuda.driver` as `cuda` and the loaded cubin of `kernels.cubins.build.HOLD`."""
        mapped = cuda.host_alloc_flags.DEVICEMAP
        self._words = cuda.pagelocked_empty(2, np.uint32, mem_flags=mapped)
        address = int(self._words.base.get_device_pointer())
        self._arguments = (address, _LIMIT_NS, address + self._words.itemsize)
        self._kernel = module.get_function("hold").prepare("PQP")
        self._stream = stream
        self._events = [cuda.Event() for _ in range(2)]

    def elapsed_s(
        self,
        queue: Callable[[], None],
        before: Callable[[], None] = lambda: None,
        after: Callable[[], None] = lambda: None,
    ) -> float:
        """Return the time of the work that `queue` enqueues in the stream, in seconds.

        `before` and `after` enqueue work that is not timed. Raise CellError if `queue` waits for
        the GPU: such code has no kernel-only time.
        """
        begin, end = self._events
        self._words[:] = 0
        self._kernel.prepared_async_call((1, 1), (1, 1, 1), self._stream, *self._arguments)
        try:
            before()
            begin.record(self._stream)
            queue()
            end.record(self._stream)
            after()
        finally:
            self._words[0] = 1
        self._stream.synchronize()
        if self._words[1]:
            raise CellError(
                "no kernel-only time: the call waits for the GPU; launch without synchronising"
            )
        return float(begin.time_till(end)) / 1e3
