"""A CUDA GPU as a device, through PyCUDA: copies, launches and events of a run."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from base.errors import StudyError
from kernels.catalog.entries import VARIANTS
from kernels.catalog.limits import DeviceLimits, not_launchable
from kernels.catalog.product import Product
from kernels.catalog.variant import AS_GRAPH, MAPPED, SEQUENTIAL, STAGED, UserCall
from kernels.cubins.build import HOLD, PROBES, TENSOR_PROBE, Build, build_for, step_build
from kernels.cubins.compile import BuildResult, architecture
from kernels.products.elements import ELEMENTS
from kernels.products.matrices import POISON_WORD, Inputs, Matrix
from measurement.devices import buffers, cublas
from measurement.devices.blocking_kernel import BlockingKernel
from measurement.devices.calls import DeviceMatrix, load_call
from measurement.devices.ceilings import Ceiling, gpu_ceilings
from measurement.devices.discovery import CudaDevice, driver
from measurement.devices.energy import POLL_S, RAMP_S, SETTLE_S, Energy, steps
from measurement.devices.flows import Duplex, Graph, Pieces
from measurement.devices.session import CellError, DeviceError, KernelTime, Timing
from measurement.devices.staging import Staged
from measurement.devices.telemetry import NvmlTelemetry
from study.cells import Cell

# The driver rounds up allocations and needs memory for kernels that it loads later.
_MEMORY_MARGIN_BYTES = 64 * 2**20
# A kernel-only sample averages enough launches to fill this time: the events alone take 1.3 µs.
_WINDOW_S, _MAX_LAUNCHES = 0.00025, 100
# Longer kernels need no warm-up launch: caches do not affect them.
_LONG_S = 0.02
# Length and limit of a batch of launches while energy is read; more would fill the launch queue.
_QUEUED_S, _MAX_QUEUED = 0.05, 400


class GpuSession:
    """A context on one GPU, with host and device buffers of the largest matrices, and kernels.

    Use it as a context manager: a CUDA context that is not destroyed aborts the interpreter.
    """

    def __init__(
        self,
        device: CudaDevice,
        inputs: Inputs,
        builds: list[BuildResult],
        cubins: Path,
        primary: bool = False,
    ) -> None:
        """Prepare a session; `cubins` contains ``sm_XX/STEM.cubin`` for each of `builds`.

        `primary`: use the primary context, which all libraries of a process share. It is always
        used if the catalog contains a user-supplied Python function.
        """
        self._cuda = driver()
        self._device = self._cuda.Device(device.index)
        self.limits = read_limits(self._cuda, self._device)
        self.telemetry = NvmlTelemetry(self._device.pci_bus_id())
        self._builds = {
            b.origin: b for b in builds if b.architecture == architecture(device.compute_capability)
        }
        self._cubins = cubins / architecture(device.compute_capability)
        self._inputs = inputs
        self._primary = primary or any(isinstance(entry, UserCall) for entry in VARIANTS.values())
        self._calls: dict[str, Callable[..., None]] = {}
        self._functions: dict[Build, Any] = {}
        self._kernel_s: dict[Cell, float] = {}  # the first kernel-only time of each cell
        self._sgemm: cublas.Sgemm | None = None
        self._graphs: dict[Cell, Graph] = {}
        self._pieces: Pieces | None = None
        self._staged: Staged | None = None
        self._prepared: Any = None  # memory for operands that a kernel prepares
        self._prepared_bytes = 0

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
                f"{self._device.name()}: cannot create a context ({error}); check `nvidia-smi`"
            ) from None
        try:
            self._allocate()
        except cuda.Error as error:
            self._close()
            raise StudyError(
                f"{self._device.name()}: not enough memory for the buffers ({error}); measure "
                "smaller sizes, or end other processes that use the GPU or much host memory"
            ) from None
        return self

    def __exit__(self, *_: object) -> None:
        # Buffers, events and functions must be destroyed before their context.
        if self._sgemm:
            self._sgemm.close()
        self._close_graphs()
        if self._staged:
            self._staged.close()
        self._functions.clear()
        self._calls.clear()
        self.__dict__.pop("_blocking_kernel", None)
        del self._pieces, self._host, self._on_device, self._events, self._stream, self._filler
        del self._prepared, self._staged
        self._close()

    def _close_graphs(self) -> None:
        for graph in self._graphs.values():
            graph.close()
        self._graphs.clear()

    def _close(self) -> None:
        self._context.pop()
        self._context.detach()

    def _allocate(self) -> None:
        """Allocate buffers of the largest matrices, limited by the GPU's free memory."""
        cuda, inputs = self._cuda, self._inputs
        free_bytes = cuda.mem_get_info()[0] - _MEMORY_MARGIN_BYTES
        self.limits = replace(self.limits, memory_bytes=free_bytes)
        largest = [max(v.nbytes for v in vectors.values()) for vectors in (inputs.a, inputs.b)]
        self._stream = cuda.Stream()
        self._events = [cuda.Event() for _ in range(4)]
        self._filler: Any = None  # written to evict everything else from the L2
        self._bytes = [min(size, free_bytes // 3) for size in (*largest, inputs.c_bytes)]
        self._on_device = [cuda.mem_alloc(size) for size in self._bytes]
        self._host = {
            "pinned": buffers.pinned(inputs, lambda size: cuda.pagelocked_empty(size, np.uint8)),
            "pageable": buffers.pageable(inputs),
        }

    @cached_property
    def _blocking_kernel(self) -> BlockingKernel:
        """Load the blocking kernel on first use; only kernel-only timing needs its cubin."""
        return BlockingKernel(self._cuda, self._module(HOLD), self._stream)

    def not_launchable(self, cell: Cell) -> str | None:
        """Return the limit of the GPU that prevents the cell from running; None if it runs."""
        build = build_for(cell.product)
        is_call = isinstance(cell.product.entry, UserCall)
        if build is None and not is_call and cublas.find_library() is None:
            return cublas.MISSING
        used = (
            (self._builds[build].registers_per_thread, self._builds[build].static_shared_bytes)
            if build
            else (0, 0)
        )
        limit = not_launchable(cell.product, self.limits, *used)
        if limit:
            return limit
        seen = cell.product.operands
        needed = (seen.a_elements, seen.b_elements, seen.c_elements)
        for elements, has in zip(needed, self._bytes, strict=True):
            size = elements * ELEMENTS[cell.dtype].bytes
            if size > has:  # on a small GPU each matrix gets a third of the memory
                return f"needs {size} bytes for a matrix, a third of the GPU's memory is {has}"
        return None

    def build(self, cell: Cell) -> str | None:
        """Return ``exact`` or ``guarded``; None for a library."""
        build = build_for(cell.product)
        return build.kind if build else None

    def poison(self, cell: Cell) -> None:
        """Fill C with poison on host and device; raise DeviceError."""
        self.product(cell).view(np.uint32).fill(POISON_WORD)
        words = self._host[str(cell.host_memory)].work(cell).c.nbytes // 4
        try:
            self._cuda.memset_d32(self._on_device[2], POISON_WORD, words)
        except self._cuda.Error as error:
            raise DeviceError(str(error)) from error

    def run(self, cell: Cell) -> Timing:
        """Copy A and B to the device, multiply, copy C back; wait for the end.

        The variant's `flow` defines how. Only runs in one stream have separately timed parts.
        """
        if cell.product.entry.flow in SEQUENTIAL:
            return self._in_turn(cell)
        try:
            start = self._flow(cell)
            begin = time.perf_counter_ns()
            start()
            return Timing((time.perf_counter_ns() - begin) / 1e9)
        except self._cuda.Error as error:
            raise DeviceError(str(error)) from error

    def _flow(self, cell: Cell) -> Callable[[], None]:
        """Return a function that executes the cell's run, of a flow in more than one step."""
        if cell in self._graphs:
            return self._graphs[cell].run
        c_device = self._on_device[2]
        work = self._host[str(cell.host_memory)].work(cell)
        if cell.product.entry.flow == AS_GRAPH:
            launch = self._launcher(cell)

            def queue() -> None:
                self._copy_in(work)
                launch()
                self._cuda.memcpy_dtoh_async(work.c, c_device, self._stream)

            self._graphs[cell] = Graph(self._stream, queue)
            return self._graphs[cell].run
        if cell.product.entry.flow == MAPPED:
            addresses = [matrix.ctypes.data for matrix in (work.a, work.b, work.c)]
            launch = self._launcher(cell, on_device=addresses)

            def run() -> None:
                launch()
                self._stream.synchronize()

            return run
        rows = cell.product.pieces

        def launcher(count: int, a_device: int, c_device: int, stream: Any) -> Callable[[], None]:
            piece = replace(cell.product, shape=replace(cell.shape, m=count))
            on_device = (a_device, self._on_device[1], c_device)
            return self._launcher(replace(cell, product=piece), stream, on_device, whole=False)

        pieces = (cell.shape, work, self._on_device, rows, launcher)
        if step_build(cell.product):
            piece = replace(cell.product, shape=replace(cell.shape, m=rows[0][1]))

            def prepare(stream: Any) -> Callable[[], None]:
                return self._prepare(piece, self._on_device, stream, rows=False)[0]

            # The first piece is the largest: memory for its operands is enough for all pieces.
            self._prepared_at(piece.prepared_bytes)
            if cell.product.entry.flow == STAGED:
                if self._staged is None:
                    self._staged = Staged(self._cuda, self._context, self._stream)
                return self._staged.ready(*pieces, prepare)
            queue = Duplex(self._cuda, self._stream).ready(*pieces, prepare)
            self._graphs[cell] = Graph(self._stream, queue)
            return self._graphs[cell].run
        if self._pieces is None:
            self._pieces = Pieces(self._cuda)
        return self._pieces.ready(*pieces)

    def _in_turn(self, cell: Cell) -> Timing:
        """Execute a run in one stream, with host steps before and after it; wait for the end."""
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
        """Measure the kernel-only time: a blocking kernel delays the launches (`BlockingKernel`).

        A and B are copied as in a run, and a short kernel is launched once before. `flushed`: the
        L2 is overwritten, so only one launch is timed.
        """
        launch = self._ready(cell)
        known_s = self._kernel_s.get(cell)
        launches = 1
        if known_s and not flushed:
            launches = min(max(math.ceil(_WINDOW_S / known_s), 1), _MAX_LAUNCHES)

        def queue() -> None:
            for _ in range(launches):
                launch()

        try:
            if flushed:
                self._flush()
            elapsed_s = self._blocking_kernel.elapsed_s(queue)
        except self._cuda.Error as error:
            raise DeviceError(str(error)) from error
        if known_s is None:
            self._kernel_s[cell] = elapsed_s
            if elapsed_s < _WINDOW_S:
                return self.kernel_time(cell, flushed)
        return KernelTime(launches, elapsed_s / launches)

    def energy(self, cell: Cell, length_s: float) -> Energy:
        """Launch the kernel back to back while reading the GPU's energy counter."""
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
                # One batch is enqueued while the host waits for the batch before.
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
        duration_s, energy_j = _interval(readings, started + RAMP_S)
        power_w = energy_j / duration_s
        return Energy(
            round(duration_s / launch_s), duration_s, launch_s, power_w, power_w * launch_s
        )

    def idle_power_w(self, length_s: float) -> float:
        """Return the GPU's mean power with this context open and nothing running."""
        time.sleep(SETTLE_S)
        readings = []
        end = time.perf_counter() + length_s
        while time.perf_counter() < end:
            readings.append((time.perf_counter(), self._energy_j()))
            time.sleep(POLL_S)
        duration_s, energy_j = _interval(readings)
        return energy_j / duration_s

    def _energy_j(self) -> float:
        energy_j = self.telemetry.energy_j()
        if energy_j is None:
            raise CellError("the GPU has no energy counter")
        return energy_j

    def _ready(self, cell: Cell) -> Callable[[], None]:
        """Copy A and B in, launch a short kernel once; return the launching function."""
        launch = self._launcher(cell)
        work = self._host[str(cell.host_memory)].work(cell)
        work.prepare()
        try:
            self._copy_in(work)
            if self._kernel_s.get(cell, 0.0) <= _LONG_S:
                launch()
        except self._cuda.Error as error:
            raise DeviceError(str(error)) from error
        return launch

    def _copy_in(self, work: buffers.Work) -> None:
        a_device, b_device, _ = self._on_device
        self._cuda.memcpy_htod_async(a_device, work.a, self._stream)
        self._cuda.memcpy_htod_async(b_device, work.b, self._stream)

    def _flush(self) -> None:
        """Overwrite the L2 by a memset of twice its size."""
        words = 2 * self._device.get_attribute(self._cuda.device_attribute.L2_CACHE_SIZE) // 4
        if self._filler is None:
            self._filler = self._cuda.mem_alloc(4 * words)
        self._cuda.memset_d32_async(self._filler, 0, words, self._stream)

    def ceilings(self) -> tuple[list[Ceiling], float]:
        """Measure the ceilings of GPU, link and clock."""
        try:
            modules = (self._module(PROBES), self._module(TENSOR_PROBE))
            return gpu_ceilings(self._cuda, self._device, *modules, self._stream)
        except self._cuda.Error as error:
            raise DeviceError(str(error)) from error

    def product(self, cell: Cell) -> Matrix:
        """Return C in the cell's host memory, (batch, m, n)."""
        return self._host[str(cell.host_memory)].product(cell)

    def _launcher(
        self,
        cell: Cell,
        stream: Any = None,
        on_device: Sequence[Any] | None = None,
        whole: bool = True,
    ) -> Callable[[], None]:
        """Return a function that launches the cell's kernel, and before it the one for operands.

        Default are the session's stream and device buffers. Not `whole`: B is prepared already.
        """
        product, shape, build = cell.product, cell.shape, build_for(cell.product)
        if isinstance(product.entry, UserCall):
            return self._call(cell, product.entry)
        if build is None:
            return partial(self._library(), *map(int, self._on_device), shape.m, shape.n, shape.k)
        launch, arguments = product.launch, product.arguments
        function = self._function(build, len(arguments))
        static = self._builds[build].static_shared_bytes
        if launch.dynamic_shared_bytes + static > self.limits.max_shared_bytes_per_block:
            attribute = self._cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
            function.set_attribute(attribute, launch.dynamic_shared_bytes)
        addresses, before = on_device or self._on_device, None
        if step_build(product):
            before, operands = self._prepare(product, addresses, stream, columns=whole)
            addresses = (*operands, addresses[2])

        def into_stream() -> None:
            if before:
                before()
            function.prepared_async_call(
                launch.grid,
                (*launch.threads, 1),
                stream or self._stream,
                *addresses,
                *arguments,
                shared_size=launch.dynamic_shared_bytes,
            )

        return into_stream

    def _prepare(
        self,
        product: Product,
        on_device: Sequence[Any],
        stream: Any,
        rows: bool = True,
        columns: bool = True,
    ) -> tuple[Callable[[], None], tuple[int, int]]:
        """Return a launch of the product's `DeviceStep`, and the addresses of its results.

        `rows`: it prepares A; `columns`: it prepares B.
        """
        build, step = step_build(product), product.kernel and product.kernel.device_step
        assert build
        assert step
        m, n, k = product.shape.m, product.shape.n, product.shape.k
        prepared = self._prepared_at(product.prepared_bytes)
        function = self._function(build, 3)
        blocks = rows * step.blocks(m, k) + columns * step.blocks(n, k)

        def into_stream() -> None:
            function.prepared_async_call(
                (blocks, 1, 1),
                (step.threads, 1, 1),
                stream or self._stream,
                *on_device[:2],
                prepared,
                *(m * rows, n, k),
                shared_size=0,
            )

        return into_stream, (prepared + step.bytes(n, k), prepared)

    def _prepared_at(self, size: int) -> int:
        """Return the address of memory for prepared operands, at least `size` bytes."""
        if size > self._prepared_bytes:
            self._close_graphs()  # they contain the old address
            self._prepared, self._prepared_bytes = None, 0
            self._prepared, self._prepared_bytes = self._cuda.mem_alloc(size), size
        return int(self._prepared)

    def _call(self, cell: Cell, entry: UserCall) -> Callable[[], None]:
        """Return a call of the user's Python function, whose file is executed on first use."""
        if entry.name not in self._calls:
            self._calls[entry.name] = load_call(Path(entry.file))
        m, n, k = cell.shape.m, cell.shape.n, cell.shape.k
        shapes = ((m, k), (k, n), (m, n))
        dtype = ELEMENTS[cell.dtype].dtype
        matrices = [
            DeviceMatrix(int(address), shape, dtype)
            for address, shape in zip(self._on_device, shapes, strict=True)
        ]
        return partial(self._calls[entry.name], *matrices, self._stream.handle)

    def _library(self) -> Callable[..., None]:
        """Return cuBLAS's SGEMM, initialised on first use."""
        if self._sgemm is None:
            self._sgemm = cublas.Sgemm(self._stream.handle)
        return self._sgemm.multiply

    def _module(self, build: Build) -> Any:
        return self._cuda.module_from_file(str(self._cubins / f"{build.stem}.cubin"))

    def _function(self, build: Build, arguments: int) -> Any:
        """Return the kernel of a build, which takes `arguments` ints; load it on first use."""
        if build not in self._functions:
            try:
                function = self._module(build).get_function(build.variant)
            except self._cuda.Error as error:
                raise CellError(f"{build.stem}.cubin: cannot be loaded: {error}") from error
            self._functions[build] = function.prepare("PPP" + "i" * arguments)
        return self._functions[build]


def _interval(readings: list[tuple[float, float]], since: float = 0.0) -> tuple[float, float]:
    found = steps([reading for reading in readings if reading[0] > since])
    if found is None:
        raise CellError("the GPU's energy counter does not change")
    return found


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
        **values, memory_bytes=device.total_memory(), compute_capability=device.compute_capability()
    )
