"""Kernels timed without the host in it: the stream is held on the GPU until all is queued.

Events around a launch also time the host: the GPU passes the first one before the launch has
arrived. Here both events and the launch are queued behind a kernel of one thread
(`kernels/hold.cu`) that waits for a word in the host's memory, and is then let go.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from measurement.devices.session import CellError

_LIMIT_NS = 2_000_000_000  # far longer than anything takes to be queued


class BlockingKernel:
    """Holds a stream of the current context."""

    def __init__(self, cuda: Any, module: Any, stream: Any) -> None:
        """`cuda` is `pycuda.driver`, `module` the loaded cubin of `kernels.cubins.build.HOLD`."""
        mapped = cuda.host_alloc_flags.DEVICEMAP
        self._words = cuda.pagelocked_empty(2, np.uint32, mem_flags=mapped)
        address = int(self._words.base.get_device_pointer())
        self._arguments = (address, _LIMIT_NS, address + self._words.itemsize)
        self._kernel = module.get_function("hold").prepare("PQP")
        self._stream = stream
        self._events = [cuda.Event() for _ in range(2)]

    def elapsed_s(self, queue: Callable[[], None]) -> float:
        """Return the time that what `queue` puts into the stream takes, in seconds.

        Raises CellError where `queue` waits for the GPU: that cannot be timed alone.
        """
        begin, end = self._events
        self._words[:] = 0
        self._kernel.prepared_async_call((1, 1), (1, 1, 1), self._stream, *self._arguments)
        try:
            begin.record(self._stream)
            queue()
            end.record(self._stream)
        finally:
            self._words[0] = 1
        end.synchronize()
        if self._words[1]:
            raise CellError("the host waits for the GPU while it launches: not timed alone")
        return float(begin.time_till(end)) / 1e3
