"""A CUDA GPU as a device, through PyCUDA: copies, launch and events of one run."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from base.errors import StudyError
from kernels.catalog.entries import VARIANTS, variant
from kernels.catalog.limits import DeviceLimits, not_launchable
from kernels.catalog.variant import AS_GRAPH, IN_TURN
from kernels.cubins.build import HOLD, PROBES, TENSOR_PROBE, Build, build_for
from kernels.cubins.compile import BuildResult, architecture
from kernels.products.elements import ELEMENTS
from kernels.products.matrices import POISON_WORD, Inputs, Matrix
from kernels.products.shape import Shape
from measurement.devices import buffers, cublas
from measurement.devices.blocking_kernel import BlockingKernel
from measurement.devices.calls import OnDevice, load_call
from measurement.devices.ceilings import Ceiling, gpu_ceilings
from measurement.devices.discovery import CudaDevice, driver
from measurement.devices.energy import POLL_S, RAMP_S, SETTLE_S, Energy, steps
from measurement.devices.flows import Graph, Pieces
from measurement.devices.session import CellError, DeviceError, KernelTime, Timing
from measurement.devices.telemetry import NvmlTelemetry
from study.cells import Cell

# The driver rounds allocations up and keeps some memory for kernels that it loads later.
_MEMORY_MARGIN_BYTES = 64 * 2**20
# A kernel is timed alone over as many launches as last so long: the events take 1.3 µs themselves.
_WINDOW_S, _MAX_LAUNCHES = 0.00025, 100
# A kernel that takes longer does not run once unrecorded before: caches no longer matter to it.
_LONG_S = 0.02
# Launches queued at a time while energy is read: so many last so long, and no queue is full.
_QUEUED_S, _MAX_QUEUED = 0.05, 400


class GpuSession:
    """Holds a context on one GPU, host and device buffers of the largest matrices, and the kernels.

    Use it as a context manager: a CUDA context that is not given back aborts the interpreter.
    """

    def __init__(
        self,
        device: CudaDevice,
        inputs: Inputs,
        builds: list[BuildResult],
        cubins: Path,
        primary: bool = False,
    ) -> None:
        """`cubins` is the folder that holds ``sm_XX/STEM.cubin`` for each of `builds`.

        `primary`: in the context that the CUDA runtime shares among all libraries of a process;
        always where the catalog has a call from outside.
        """
        self._cuda = driver()
        self._device = self._cuda.Device(device.index)
        self.limits = read_limits(self._cuda, self._device)
        self.telemetry = NvmlTelemetry(self._device.pci_bus_id())
        self._builds = {
            Build(b.variant, b.block_size, b.dtype, b.build == "guarded"): b
            for b in builds
            if b.architecture == architecture(device.compute_capability)
        }
        self._cubins = cubins / architecture(device.compute_capability)
        self._inputs = inputs
        self._primary = primary or any(entry.is_call for entry in VARIANTS.values())
        self._calls: dict[str, Callable[..., None]] = {}
        self._functions: dict[Build, Any] = {}
        self._isolated_s: dict[Cell, float] = {}  # the first time of every kernel alone
        self._sgemm: cublas.Sgemm | None = None
        self._graphs: dict[Cell, Graph] = {}
        self._pieces: Pieces | None = None

    def __enter__(self) -> "GpuSession":
        cuda = self._cuda
        try:
            if self._primary:
                self._context = self._device.retain_primary_context()
                self._context.push()
            else:
                self._context = self._device.make_context()
        except cuda.Error as error:
            raise StudyError(
                f"{self._device.name()}: gives no context ({error}); check `nvidia-smi`"
            ) from None
        try:
            self._allocate()
        except cuda.Error as error:
            self._close()
            raise StudyError(
                f"{self._device.name()}: no memory for the buffers ({error}); measure smaller "
                "sizes, or end what else uses the GPU or the host's memory"
            ) from None
        return self

    def __exit__(self, *_: object) -> None:
        # Buffers, events and functions must go while their context still stands.
        if self._sgemm:
            self._sgemm.close()
        for graph in self._graphs.values():
            graph.close()
        self._graphs.clear()
        self._functions.clear()
        self._calls.clear()
        self.__dict__.pop("_hold", None)
        del self._pieces, self._host, self._on_device, self._events, self._stream, self._others
        self._close()

    def _close(self) -> None:
        self._context.pop()
        self._context.detach()

    def _allocate(self) -> None:
        """Make buffers of the largest matrices that the free memory of the GPU takes."""
        cuda, inputs = self._cuda, self._inputs
        free_bytes = cuda.mem_get_info()[0] - _MEMORY_MARGIN_BYTES
        self.limits = replace(self.limits, memory_bytes=free_bytes)
        largest = [max(v.nbytes for v in vectors.values()) for vectors in (inputs.a, inputs.b)]
        self._stream = cuda.Stream()
        self._events = [cuda.Event() for _ in range(4)]
        self._others: Any = None  # memory that drives what it holds out of the caches
        self._bytes = [min(size, free_bytes // 3) for size in (*largest, inputs.c_bytes)]
        self._on_device = [cuda.mem_alloc(size) for size in self._bytes]
        self._host = {
            "pinned": buffers.pinned(inputs, lambda size: cuda.pagelocked_empty(size, np.uint8)),
            "pageable": buffers.pageable(inputs),
        }

    @cached_property
    def _hold(self) -> BlockingKernel:
        """What holds the stream; its cubin has to be there only where a kernel is timed alone."""
        return BlockingKernel(self._cuda, self._module(HOLD), self._stream)

    def not_launchable(self, cell: Cell) -> str | None:
        """Say which limit of the GPU keeps the cell from running; None if it runs."""
        build = _build_of(cell)
        is_call = variant(cell.variant).is_call
        if build is None and not is_call and cublas.find_library() is None:
            return cublas.MISSING
        used = (
            (self._builds[build].registers_per_thread, self._builds[build].static_shared_bytes)
            if build
            else (0, 0)
        )
        limit = not_launchable(
            cell.variant, cell.shape, cell.block_size, cell.dtype, self.limits, *used
        )
        if limit:
            return limit
        seen = variant(cell.variant).operands(cell.shape, cell.block_size)
        needed = (seen.a_elements, seen.b_elements, seen.c_elements)
        for elements, has in zip(needed, self._bytes, strict=True):
            size = elements * ELEMENTS[cell.dtype].bytes
            if size > has:  # of a small GPU each matrix has a third
                return f"needs {size} bytes for a matrix, a third of the GPU's memory is {has}"
        return None

    def build(self, cell: Cell) -> str | None:
        """Return ``exact`` or ``guarded``; None for a library's product."""
        build = _build_of(cell)
        return build.kind if build else None

    def poison(self, cell: Cell) -> None:
        """Fill C with poison, on the host and on the device."""
        self.product(cell).view(np.uint32).fill(POISON_WORD)
        words = self._host[str(cell.host_memory)].work(cell).c.nbytes // 4
        try:
            self._cuda.memset_d32(self._on_device[2], POISON_WORD, words)
        except self._cuda.Error as error:
            raise DeviceError(str(error)) from error

    def run(self, cell: Cell) -> Timing:
        """Copy A and B to the device, multiply, copy C back, as the variant's `flow` says; wait.

        A run that is not in turn has no parts that could be timed each by itself.
        """
        if variant(cell.variant).flow == IN_TURN:
            return self._in_turn(cell)
        try:
            start = self._flow(cell)
            begin = time.perf_counter_ns()
            start()
            return Timing((time.perf_counter_ns() - begin) / 1e9)
        except self._cuda.Error as error:
            raise DeviceError(str(error)) from error

    def _flow(self, cell: Cell) -> Callable[[], None]:
        """Return what runs a run in pieces or as a graph, ready but for its start."""
        entry, c_device = variant(cell.variant), self._on_device[2]
        work = self._host[str(cell.host_memory)].work(cell)
        if entry.flow == AS_GRAPH:
            if cell not in self._graphs:
                launch = self._launcher(cell)

                def queue() -> None:
                    self._copy_in(work)
                    launch()
                    self._cuda.memcpy_dtoh_async(work.c, c_device, self._stream)

                self._graphs[cell] = Graph(self._stream, queue)
            return self._graphs[cell].run
        if self._pieces is None:
            self._pieces = Pieces(self._cuda)
        rows = entry.pieces(cell.shape, cell.block_size)

        def launcher(count: int, a_there: int, c_there: int, stream: Any) -> Callable[[], None]:
            shape = replace(cell.shape, m=count)
            return self._launcher(cell, shape, stream, (a_there, self._on_device[1], c_there))

        return self._pieces.ready(cell.shape, work, self._on_device, rows, launcher)

    def _in_turn(self, cell: Cell) -> Timing:
        """Run a run in one stream, then wait.

        What the host does with the matrices itself comes before the first copy and after the last.
        """
        launch = self._launcher(cell)
        work = self._host[str(cell.host_memory)].work(cell)
        c_device, stream = self._on_device[2], self._stream
        started, copied_in, computed, copied_out = self._events
        try:
            begin = time.perf_counter_ns()
            work.prepare()
            prepared = time.perf_counter_ns()
            started.record(stream)
            self._copy_in(work)
            copied_in.record(stream)
            launch()
            computed.record(stream)
            self._cuda.memcpy_dtoh_async(work.c, c_device, stream)
            copied_out.record(stream)
            stream.synchronize()
            computed_ns = time.perf_counter_ns()
            work.finish()
            end = time.perf_counter_ns()
        except self._cuda.Error as error:
            raise DeviceError(str(error)) from error
        has_step = bool(work.before or work.after)
        return Timing(
            (end - begin) / 1e9,
            (prepared - begin + end - computed_ns) / 1e9 if has_step else None,
            started.time_till(copied_in) / 1e3,
            copied_in.time_till(computed) / 1e3,
            computed.time_till(copied_out) / 1e3,
        )

    def kernel_time(self, cell: Cell, flushed: bool) -> KernelTime:
        """Time the kernel alone: the stream is held until its launches are queued.

        A and B are copied in as in a run, and the kernel runs once unrecorded, unless it is so
        long that neither matters. `flushed`: then the L2 is filled with something else, so that
        there is one launch only.
        """
        launch = self._ready(cell)
        known_s = self._isolated_s.get(cell)
        launches = 1
        if known_s and not flushed:
            launches = min(max(math.ceil(_WINDOW_S / known_s), 1), _MAX_LAUNCHES)

        def queue() -> None:
            for _ in range(launches):
                launch()

        try:
            if flushed:
                self._flush()
            elapsed_s = self._hold.elapsed_s(queue)
        except self._cuda.Error as error:
            raise DeviceError(str(error)) from error
        if known_s is None:
            self._isolated_s[cell] = elapsed_s
            if elapsed_s < _WINDOW_S:
                return self.kernel_time(cell, flushed)
        return KernelTime(launches, elapsed_s / launches)

    def energy(self, cell: Cell, length_s: float) -> Energy:
        """Launch the kernel back to back, and read the GPU's energy counter meanwhile."""
        one_s = self.kernel_time(cell, flushed=False).kernel_s
        queued = min(max(int(_QUEUED_S / one_s), 1), _MAX_QUEUED)
        launch = self._ready(cell)
        begin, end, *ends = self._events
        readings: list[tuple[float, float]] = []
        launches = 0
        try:
            started = time.perf_counter()
            begin.record(self._stream)
            while time.perf_counter() - started < RAMP_S + length_s:
                for _ in range(queued):
                    launch()
                launches += queued
                # As many again are in the queue while those before are waited for.
                ends.reverse()
                ends[0].record(self._stream)
                while launches > queued and not ends[1].query():
                    readings.append((time.perf_counter(), self._energy_j()))
                    time.sleep(POLL_S)
            end.record(self._stream)
            end.synchronize()
            launch_s = begin.time_till(end) / 1e3 / launches
        except self._cuda.Error as error:
            raise DeviceError(str(error)) from error
        seen = steps([reading for reading in readings if reading[0] > started + RAMP_S])
        if seen is None:
            raise CellError("the GPU's energy counter does not move")
        duration_s, energy_j = seen
        power_w = energy_j / duration_s
        return Energy(
            round(duration_s / launch_s), duration_s, launch_s, power_w, power_w * launch_s
        )

    def idle_power_w(self, length_s: float) -> float:
        """Return the power of the GPU with this context open and nothing running."""
        time.sleep(SETTLE_S)
        readings = []
        end = time.perf_counter() + length_s
        while time.perf_counter() < end:
            readings.append((time.perf_counter(), self._energy_j()))
            time.sleep(POLL_S)
        seen = steps(readings)
        if seen is None:
            raise CellError("the GPU's energy counter does not move")
        return seen[1] / seen[0]

    def _energy_j(self) -> float:
        energy_j = self.telemetry.energy_j()
        if energy_j is None:
            raise CellError("the card does not tell its energy")
        return energy_j

    def _ready(self, cell: Cell) -> Callable[[], None]:
        """Copy A and B in and run the kernel once where that is short; return what launches it."""
        launch = self._launcher(cell)
        work = self._host[str(cell.host_memory)].work(cell)
        work.prepare()
        try:
            self._copy_in(work)
            if self._isolated_s.get(cell, 0.0) <= _LONG_S:
                launch()
        except self._cuda.Error as error:
            raise DeviceError(str(error)) from error
        return launch

    def _copy_in(self, work: buffers.Work) -> None:
        a_device, b_device, _ = self._on_device
        self._cuda.memcpy_htod_async(a_device, work.a, self._stream)
        self._cuda.memcpy_htod_async(b_device, work.b, self._stream)

    def _flush(self) -> None:
        """Write twice the bytes of the L2."""
        words = 2 * self._device.get_attribute(self._cuda.device_attribute.L2_CACHE_SIZE) // 4
        if self._others is None:
            self._others = self._cuda.mem_alloc(4 * words)
        self._cuda.memset_d32_async(self._others, 0, words, self._stream)

    def ceilings(self) -> tuple[list[Ceiling], float]:
        """Measure what GPU, link and clock can do at best."""
        try:
            modules = (self._module(PROBES), self._module(TENSOR_PROBE))
            return gpu_ceilings(self._cuda, self._device, *modules, self._stream)
        except self._cuda.Error as error:
            raise DeviceError(str(error)) from error

    def product(self, cell: Cell) -> Matrix:
        """Return C in the cell's kind of host memory, (batch, m, n)."""
        return self._host[str(cell.host_memory)].product(cell)

    def _launcher(
        self,
        cell: Cell,
        shape: Shape | None = None,
        stream: Any = None,
        on_device: Sequence[Any] | None = None,
    ) -> Callable[[], None]:
        """Return what launches the cell's kernel, with all arguments at hand.

        Into the session's stream and on the session's matrices, unless others are given.
        """
        build = _build_of(cell)
        if variant(cell.variant).is_call:
            return self._call(cell)
        if build is None:
            return partial(self._library(), *map(int, self._on_device), cell.m, cell.n, cell.k)
        entry, shape = variant(cell.variant), shape or cell.shape
        arguments = entry.arguments(shape, cell.block_size)
        function = self._function(build, len(arguments))
        launch = entry.launch(shape, cell.block_size)
        static = self._builds[build].static_shared_bytes
        if launch.dynamic_shared_bytes + static > self.limits.max_shared_bytes_per_block:
            attribute = self._cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
            function.set_attribute(attribute, launch.dynamic_shared_bytes)

        def into_stream() -> None:
            function.prepared_async_call(
                launch.grid,
                (*launch.threads, 1),
                stream or self._stream,
                *(on_device or self._on_device),
                *arguments,
                shared_size=launch.dynamic_shared_bytes,
            )

        return into_stream

    def _call(self, cell: Cell) -> Callable[[], None]:
        """Return what has a user's call queue the product; its file is run at the first use."""
        path = Path(str(variant(cell.variant).file))
        if cell.variant not in self._calls:
            self._calls[cell.variant] = load_call(path)
        shapes = ((cell.m, cell.k), (cell.k, cell.n), (cell.m, cell.n))
        dtype = ELEMENTS[cell.dtype].dtype
        matrices = [
            OnDevice(int(address), shape, dtype)
            for address, shape in zip(self._on_device, shapes, strict=True)
        ]
        return partial(self._calls[cell.variant], *matrices, self._stream.handle)

    def _library(self) -> Callable[..., None]:
        """Return cuBLAS's product, made ready at the first use."""
        if self._sgemm is None:
            self._sgemm = cublas.Sgemm(self._stream.handle)
        return self._sgemm.multiply

    def _module(self, build: Build) -> Any:
        return self._cuda.module_from_file(str(self._cubins / f"{build.stem}.cubin"))

    def _function(self, build: Build, arguments: int) -> Any:
        """Return the kernel of a build, which takes so many ints, loading it at the first use."""
        if build not in self._functions:
            try:
                function = self._module(build).get_function(build.variant)
            except self._cuda.Error as error:
                raise CellError(f"{build.stem}.cubin does not load: {error}") from error
            self._functions[build] = function.prepare("PPP" + "i" * arguments)
        return self._functions[build]


def _build_of(cell: Cell) -> Build | None:
    return build_for(cell.variant, cell.shape, cell.block_size, cell.dtype)


def read_limits(cuda: Any, device: Any) -> DeviceLimits:
    """Read a GPU's limits from its device attributes."""
    attribute = cuda.device_attribute
    names = {
        "max_threads_per_block": attribute.MAX_THREADS_PER_BLOCK,
        "max_shared_bytes_per_block": attribute.MAX_SHARED_MEMORY_PER_BLOCK,
        "max_shared_bytes_per_block_optin": attribute.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
        "max_registers_per_block": attribute.MAX_REGISTERS_PER_BLOCK,
        "max_grid_x": attribute.MAX_GRID_DIM_X,
        "max_grid_y": attribute.MAX_GRID_DIM_Y,
        "max_grid_z": attribute.MAX_GRID_DIM_Z,
        "warp_size": attribute.WARP_SIZE,
    }
    values = {name: device.get_attribute(number) for name, number in names.items()}
    return DeviceLimits(
        **values,
        memory_bytes=device.total_memory(),
        compute_capability=device.compute_capability(),
    )
