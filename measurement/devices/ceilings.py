"""Ceilings: measured limits of a GPU and its link (throughput, bandwidth, latency) and of clocks.

The kernels are in `kernels/probes.cu`, their parameters in `measurement.devices.probes`. Each
quantity is measured once per round in `ROUNDS` rounds, so drift affects all quantities equally. A
first warm-up round is discarded.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from measurement.devices import probes
from measurement.devices.probes import Chase, Sweep

ROUNDS = 6
_POINTER_BYTES = 8
_EMPTY_RUNS = 31
_CLOCK_READINGS = 10_000


@dataclass(frozen=True)
class Ceiling:
    """One measurement of one quantity, whose name ends in its unit.

    `host_memory`: ``pinned`` or ``pageable`` for copies between host and device, else None.
    `size_bytes`: the size of a copy or of a bandwidth's arrays, else None. `threads`: the number of
    CPU threads, None on a GPU. Rounds count from 1.
    """

    quantity: str
    host_memory: str | None
    size_bytes: int | None
    round: int
    value: float
    threads: int | None = None


# (quantity, host memory, size in bytes, value) of one measurement.
CeilingRow = tuple[str, str | None, int | None, float]
Measurement = Callable[[], list[CeilingRow]]


def smallest_step(readings_ns: npt.NDArray[np.int64]) -> float:
    """Return the smallest non-zero step between successive readings of a clock, in seconds."""
    steps = np.diff(readings_ns)
    return float(steps[steps > 0].min()) / 1e9


def in_rounds(measurements: list[Measurement]) -> list[Ceiling]:
    """Take all measurements in ROUNDS rounds after a warm-up round; return the results."""
    return [
        Ceiling(quantity, host_memory, size_bytes, number, value)
        for number in range(ROUNDS + 1)
        for measure in measurements
        for quantity, host_memory, size_bytes, value in measure()
        if number > 0
    ]


def timer_ceilings() -> list[Ceiling]:
    """Return the resolution of the host's clock and the time of a run that does nothing.

    Each round takes the median of many empty runs, because one is shorter than most clocks' step.
    """
    return in_rounds([_timer_resolution, _empty_host_run])


def gpu_ceilings(
    cuda: Any, device: Any, module: Any, tensor_module: Any, stream: Any
) -> tuple[list[Ceiling], float]:
    """Measure the ceilings of a GPU in the current context; takes a few seconds.

    `cuda` is `pycuda.driver`; the modules are the loaded cubins of `kernels.cubins.build.PROBES`
    and `TENSOR_PROBE` (used only on GPUs with these tensor cores). A latency is the time of a
    pointer chase divided by its number of loads. The kernel reads the SM's clock64 (cycles) and the
    globaltimer (ns) around the same loads. Events in `stream` time copies, FMAs and reads.
    `device_copy_bytes_per_s` counts each byte twice, read and written. It and the DRAM latency are
    omitted if free memory is too small for a buffer much larger than the L2. All memory is freed.
    Return also the seconds that the GPU was busy with kernels and copies. Raise `cuda.Error`.
    """
    with ExitStack() as stack:
        gpu = _ProbedGpu(cuda, device, module, tensor_module, stream, stack)
        return in_rounds(list(gpu.measurements())), gpu.busy_s


class _ProbedGpu:
    """One GPU with the loaded probe kernels and their buffers; `stack` frees them."""

    def __init__(
        self, cuda: Any, device: Any, module: Any, tensor_module: Any, stream: Any, stack: ExitStack
    ) -> None:
        self._cuda = cuda
        self._kernels = {
            name: module.get_function(name).prepare(types) for name, types in probes.KERNELS.items()
        }
        tensor_kernel = tensor_module.get_function(probes.TENSOR_KERNEL)
        self._kernels[probes.TENSOR_KERNEL] = tensor_kernel.prepare(probes.TENSOR_TYPES)
        self._has_tensor_cores = device.compute_capability() >= probes.TENSOR_CAPABILITY
        self.busy_s = 0.0
        self._stream, self._other_stream = stream, cuda.Stream()
        self._stack = stack
        self._events = [cuda.Event() for _ in range(4)]
        attribute = cuda.device_attribute
        l2_bytes = device.get_attribute(attribute.L2_CACHE_SIZE)
        free_bytes = cuda.mem_get_info()[0]
        self._reaches_memory = probes.reaches_memory(l2_bytes, free_bytes)
        threads = device.get_attribute(attribute.MAX_THREADS_PER_MULTIPROCESSOR)
        multiprocessors = device.get_attribute(attribute.MULTIPROCESSOR_COUNT)
        self._blocks = multiprocessors * (threads // probes.THREADS)  # resident at once
        self._sizes = probes.copy_sizes(free_bytes)
        self._copy_bytes = probes.device_copy_bytes(free_bytes)
        self._source, self._target = (self._on_device(self._copy_bytes) for _ in range(2))
        self._readings = self._on_device(3 * 8)
        self._host = {
            "pinned": self._pinned(self._sizes[-1]),
            "pageable": np.empty(self._sizes[-1], np.uint8),
        }
        self._rings = {
            chase: self._ring(chase) for chase in probes.plan_chases(l2_bytes, free_bytes)
        }
        self._sweeps = probes.plan_sweeps(l2_bytes)
        tiles_bytes = max(sweep.buffer_bytes for sweep in self._sweeps)
        self._tiles = self._on_device(tiles_bytes)
        cuda.memset_d32(self._tiles, 0, tiles_bytes // 4)
        for buffer in self._host.values():
            buffer.fill(1)  # pages are mapped only when touched

    def measurements(self) -> Iterator[Measurement]:
        """Yield the measurements of one round."""
        fma = ("fp32_flop_per_s", "fp32_fma", probes.FMA_FLOP, probes.FMA_ARGUMENTS)
        yield partial(self._rate, *fma)
        if self._has_tensor_cores:
            tensor = (probes.TENSOR_KERNEL, probes.TENSOR_FLOP, probes.TENSOR_ARGUMENTS)
            yield partial(self._rate, "fp16_tensor_flop_per_s", *tensor)
        if self._reaches_memory:
            yield self._device_copy
        for sweep in self._sweeps:
            yield partial(self._sweep, sweep)
        yield self._shared_latency
        for chase in self._rings:
            yield partial(self._latency, chase)
        for memory in self._host:
            for size in self._sizes:
                yield partial(self._host_copies, memory, size)
        yield self._duplex_copies
        yield self._empty_run
        yield _timer_resolution

    def _on_device(self, size_bytes: int) -> Any:
        buffer = self._cuda.mem_alloc(size_bytes)
        self._stack.callback(buffer.free)
        return buffer

    def _pinned(self, size_bytes: int) -> npt.NDArray[np.uint8]:
        buffer: npt.NDArray[np.uint8] = self._cuda.pagelocked_empty(size_bytes, np.uint8)
        self._stack.callback(buffer.base.free)  # type: ignore[union-attr]
        return buffer

    def _ring(self, chase: Chase) -> Any:
        """Write the ring of pointers that a chase follows to device memory; return its buffer."""
        successors = probes.random_ring(chase.ring_bytes // probes.SLOT_BYTES)
        ring = self._on_device(chase.ring_bytes)
        order = self._cuda.mem_alloc(successors.nbytes)
        try:
            self._cuda.memcpy_htod(order, successors)
            slots = len(successors)
            stride = probes.SLOT_BYTES // _POINTER_BYTES
            self._launch("lay_ring", -(-slots // 256), 256, ring, order, slots, stride)
            self._stream.synchronize()
        finally:
            order.free()
        return ring

    def _launch(self, kernel: str, blocks: int, threads: int, *arguments: object) -> None:
        self._kernels[kernel].prepared_async_call(
            (blocks, 1), (threads, 1, 1), self._stream, *arguments
        )

    def _elapsed_s(self, work: Callable[[], None]) -> float:
        """Return the time of `work` in the stream, by events around it."""
        started, ended = self._events[:2]
        started.record(self._stream)
        work()
        ended.record(self._stream)
        self._stream.synchronize()
        elapsed_s = float(started.time_till(ended)) / 1e3
        self.busy_s += elapsed_s
        return elapsed_s

    def _back_to_back_s(self, work: Callable[[], None]) -> float:
        """Return the time of `work` enqueued behind the same work, so without launch latency."""
        work()
        elapsed_s = self._elapsed_s(work)
        self.busy_s += elapsed_s  # the time of the first one counts as busy, too
        return elapsed_s

    def _rate(
        self, quantity: str, kernel: str, of_block: int, arguments: tuple[object, ...]
    ) -> list[CeilingRow]:
        """Measure a throughput with a kernel; each block does `of_block` operations or bytes."""
        arguments = (*arguments, self._readings)
        launch = partial(self._launch, kernel, self._blocks, probes.THREADS, *arguments)
        rate = of_block * self._blocks / self._back_to_back_s(launch)
        return [(quantity, None, None, rate)]

    def _sweep(self, sweep: Sweep) -> list[CeilingRow]:
        source = () if sweep.level == "shared" else (self._tiles, sweep.buffer_bytes)
        arguments = (*source, sweep.steps, probes.NEVER_READ)
        of_block = probes.TILE_BYTES * sweep.steps
        return self._rate(f"{sweep.level}_bytes_per_s", sweep.kernel, of_block, arguments)

    def _copy_on_device(self) -> None:
        self._cuda.memcpy_dtod_async(self._target, self._source, self._copy_bytes, self._stream)

    def _device_copy(self) -> list[CeilingRow]:
        rate = 2 * self._copy_bytes / self._back_to_back_s(self._copy_on_device)
        return [("device_copy_bytes_per_s", None, self._copy_bytes, rate)]

    def _shared_latency(self) -> list[CeilingRow]:
        arguments = (probes.SHARED_POINTERS, probes.SHARED_STEPS, self._readings)
        self._launch("chase_shared", 1, 1, *arguments)
        return self._latency_rows("shared", probes.SHARED_STEPS)

    def _latency(self, chase: Chase) -> list[CeilingRow]:
        if chase.level == "dram":
            self._copy_on_device()  # evicts the ring from the L2
        arguments = (self._rings[chase], chase.warm_up, chase.steps, self._readings)
        self._launch(chase.kernel, 1, 1, *arguments)
        return self._latency_rows(chase.level, chase.steps)

    def _latency_rows(self, level: str, steps: int) -> list[CeilingRow]:
        self._stream.synchronize()
        readings = np.empty(3, np.int64)
        self._cuda.memcpy_dtoh(readings, self._readings)
        self.busy_s += float(readings[1]) / 1e9
        cycles, nanoseconds = (float(reading) / steps for reading in readings[:2])
        return [
            (f"{level}_latency_s", None, None, nanoseconds / 1e9),
            (f"{level}_latency_cycles", None, None, cycles),
        ]

    def _host_copies(self, memory: str, size_bytes: int) -> list[CeilingRow]:
        cuda, stream = self._cuda, self._stream
        host = self._host[memory][:size_bytes]
        times_s = {
            "h2d": self._elapsed_s(partial(cuda.memcpy_htod_async, self._target, host, stream)),
            "d2h": self._elapsed_s(partial(cuda.memcpy_dtoh_async, host, self._target, stream)),
        }
        return [
            (f"{direction}_bytes_per_s", memory, size_bytes, size_bytes / time_s)
            for direction, time_s in times_s.items()
        ]

    def _duplex_copies(self) -> list[CeilingRow]:
        """Measure copies in both directions at the same time, each in its own stream."""
        cuda, size = self._cuda, self._sizes[-1] // 2
        sent, received = np.split(self._host["pinned"][: 2 * size], 2)
        begin, sent_at, received_at = self._events[:3]
        begin.record(self._stream)
        self._other_stream.wait_for_event(begin)
        cuda.memcpy_htod_async(self._target, sent, self._stream)
        sent_at.record(self._stream)
        cuda.memcpy_dtoh_async(received, self._source, self._other_stream)
        received_at.record(self._other_stream)
        times_s = {}
        for direction, end in (("h2d", sent_at), ("d2h", received_at)):
            end.synchronize()
            times_s[direction] = begin.time_till(end) / 1e3
        self.busy_s += max(times_s.values())
        return [
            (f"{direction}_duplex_bytes_per_s", "pinned", size, size / time_s)
            for direction, time_s in times_s.items()
        ]

    def _empty_run(self) -> list[CeilingRow]:
        """Time a `GpuSession` run without copies and kernel, as the medians of many such runs."""
        times_s = np.median([self._empty_run_s() for _ in range(_EMPTY_RUNS)], axis=0)
        names = ("empty_total_s", "empty_h2d_s", "empty_kernel_s", "empty_d2h_s")
        return [
            (name, None, None, float(time_s)) for name, time_s in zip(names, times_s, strict=True)
        ]

    def _empty_run_s(self) -> tuple[float, ...]:
        begin = time.perf_counter_ns()
        for event in self._events:
            event.record(self._stream)
        self._stream.synchronize()
        total_ns = time.perf_counter_ns() - begin
        parts_ms = (first.time_till(second) for first, second in pairwise(self._events))
        return total_ns / 1e9, *(part_ms / 1e3 for part_ms in parts_ms)


def _timer_resolution() -> list[CeilingRow]:
    readings = np.array([time.perf_counter_ns() for _ in range(_CLOCK_READINGS)])
    return [("timer_resolution_s", None, None, smallest_step(readings))]


def _empty_host_run() -> list[CeilingRow]:
    times_ns = []
    for _ in range(_CLOCK_READINGS):
        begin = time.perf_counter_ns()
        times_ns.append(time.perf_counter_ns() - begin)
    return [("empty_total_s", None, None, float(np.median(times_ns)) / 1e9)]
