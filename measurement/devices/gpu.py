"""A CUDA GPU as a device, through PyCUDA: its copies, its launches and its events."""

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from base.errors import StudyError
from kernels.catalog.limits import DeviceLimits, not_launchable
from kernels.catalog.locations import LOCATIONS
from kernels.catalog.variant import SEQUENTIAL, UserCall, UserKernel, UserSupplied
from kernels.cubins.build import HOLD, PROBES, TENSOR_PROBE, build_for, step_build
from kernels.cubins.compile import BuildResult
from kernels.products.matrices import FINITE_POISON_WORD, POISON_WORD, Inputs, Matrix
from measurement.devices import buffers, cublas
from measurement.devices.blocking_kernel import BlockingKernel
from measurement.devices.ceilings import Ceiling, gpu_ceilings
from measurement.devices.discovery import CudaDevice, driver
from measurement.devices.errors import CellError, DeviceError
from measurement.devices.flows import reset_persisting_l2
from measurement.devices.launching import Cubins, Launch, Launches
from measurement.devices.observers import Observer, observed
from measurement.devices.pieces import Setting, Trial
from measurement.devices.placement import moves_of, to_gpu
from measurement.devices.runs import Runs
from measurement.devices.second_check import MOST_LAUNCHES, SAME, Change, step_bytes
from measurement.devices.session import DeviceSession, KernelTime, Timing
from measurement.devices.throughput import Batch, Lanes
from measurement.devices.two_gpus import Lane, TwoGpus, open_lane
from study.cells import Cell

# The driver rounds up allocations and needs memory for kernels that it loads later.
_MEMORY_MARGIN_BYTES = 64 * 2**20
_PAGE_BYTES = 4096
# A kernel-only sample averages enough launches to fill this time: the events alone take 1.3 µs.
_WINDOW_S = 0.00025
# Longer kernels need no warm-up launch: caches do not affect them.
_LONG_S = 0.02
# Length and limit of a batch of launches while energy is read; more would fill the launch queue.
_QUEUED_S, _MAX_QUEUED = 0.05, 400
# Pause before idle time, and between calls of observers.
_SETTLE_S, _POLL_S = 1.0, 0.002
_ONE_GPU = "needs a second GPU of the same model in the same recording, without --at-once"


class GpuSession(DeviceSession):
    """A context on one GPU, its kernels, and buffers for the largest matrices on host and device.

    Use it as a context manager: a CUDA context that is not destroyed aborts the interpreter.
    """

    def __init__(
        self,
        device: CudaDevice,
        inputs: Inputs,
        builds: list[BuildResult],
        cubins: Path,
        primary: bool = False,
        partner: CudaDevice | None = None,
    ) -> None:
        """Prepare a session; `cubins` contains ``sm_XX/STEM.cubin`` for each of `builds`.

        `primary`: use the primary context, which all libraries of a process share; user-supplied
        Python functions need it. `partner`: the other GPU of runs on two GPUs.
        """
        self._cuda = driver()
        self._device = self._cuda.Device(device.index)
        self._partner = partner and self._cuda.Device(partner.index)
        self.limits = read_limits(self._cuda, self._device)
        self._cubins = Cubins(builds, cubins, device.compute_capability)
        self._inputs = inputs
        self._primary = primary
        self._kernel_s: dict[Cell, float] = {}  # the first kernel-only time of each cell

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
        self._launches.close()
        self._runs.close()
        self.__dict__.pop("_blocking_kernel", None)
        del self._runs, self._launches, self._host, self._on_device
        del self._events, self._stream, self._filler
        self._close()

    def _close(self) -> None:
        self._context.pop()
        self._context.detach()

    def _allocate(self) -> None:
        """Allocate device buffers for the largest matrices that fit into free memory."""
        cuda, inputs = self._cuda, self._inputs
        free_bytes = cuda.mem_get_info()[0] - _MEMORY_MARGIN_BYTES
        self.limits = replace(self.limits, memory_bytes=free_bytes)
        largest = [max(v.nbytes for v in vectors.values()) for vectors in (inputs.a, inputs.b)]
        largest.append(inputs.c_bytes + inputs.spare_bytes)
        self._stream = cuda.Stream()
        self._events = [cuda.Event() for _ in range(4)]
        self._filler: Any = None  # written to evict everything else from the L2
        self._bytes = [min(size, free_bytes // 3) for size in largest]
        self._on_device = [cuda.mem_alloc(size) for size in self._bytes]
        for buffer, size in zip(self._on_device, self._bytes, strict=True):
            # A kernel that reads beyond a matrix then gets NaN instead of the zeros of new memory.
            cuda.memset_d32_async(buffer, POISON_WORD, size // 4, self._stream)
        parts = (self._cubins, self.limits, self._stream, self._on_device)
        self._launches = Launches(cuda, *parts)
        self._runs = Runs(cuda, self._context, self._stream, self._launches, self._open_two)
        self._host = {"pinned": self._copied("pinned"), "pageable": buffers.pageable(inputs)}

    @contextmanager
    def _faults(self) -> Iterator[None]:
        """Raise DeviceError for an error of CUDA in the block."""
        try:
            yield
        except self._cuda.Error as error:
            raise DeviceError(str(error)) from error

    def _open_two(self) -> TwoGpus:
        lane = Lane(self._cuda, self._context, self._launches)
        parts = (self._partner, self._cubins, self.limits, self._bytes)
        reach = bool(self._device.can_access_peer(self._partner))
        return TwoGpus(self._cuda, (lane, open_lane(self._cuda, *parts)), reach)

    @cached_property
    def _blocking_kernel(self) -> BlockingKernel:
        """Load the blocking kernel on first use: only kernel-only timing needs its cubin."""
        return BlockingKernel(self._cuda, self._launches.module(HOLD), self._stream)

    def not_launchable(self, cell: Cell) -> str | None:
        """Return the limit of the GPU that prevents the cell from running; None if it runs."""
        build = build_for(cell.product)
        is_call = isinstance(cell.product.entry, UserCall)
        if build is None and not is_call and cublas.find_library() is None:
            return cublas.MISSING
        if cell.product.entry.gpus > 1 and not self._partner:
            return _ONE_GPU
        built = self._cubins.results[build] if build else None
        used = (built.registers_per_thread, built.static_shared_bytes) if built else (0, 0)
        limit = not_launchable(cell.product, self.limits, *used)
        if limit:
            return limit
        for needed, has in zip(cell.product.matrix_bytes, self._bytes, strict=True):
            size = needed + self._inputs.spare_bytes
            if size > has:  # on a small GPU each matrix gets a third of the memory
                return f"needs {size} bytes for a matrix, a third of the GPU's memory is {has}"
        return None

    def build(self, cell: Cell) -> str | None:
        """Return the kind of the cell's build, ``exact`` or ``guarded``; None for a library."""
        build = build_for(cell.product)
        return build.kind if build else None

    def poison(self, cell: Cell) -> None:
        """Fill C with poison on host and device; raise DeviceError."""
        self.product(cell).view(np.uint32).fill(_poison(cell))
        words = self._work(cell).c.nbytes // 4
        with self._faults():
            self._runs.fill_c(_poison(cell), words)

    def run(self, cell: Cell, change: Change = SAME, observers: Sequence[Observer] = ()) -> Timing:
        """Copy A and B to the device, multiply, copy C back; return when all is done.

        The variant's `flow` defines how copies and kernel are ordered. Only runs in one stream have
        separately timed parts. If the inputs are changed, C on the device is poisoned before.
        """
        with observed(observers), self._changed(cell, change):
            if cell.product.entry.flow in SEQUENTIAL:
                return self._in_turn(cell, change)
            with self._faults():
                start = self._runs.of(cell, self._work(cell))
                begin = time.perf_counter_ns()
                start()
                return Timing((time.perf_counter_ns() - begin) / 1e9)

    @contextmanager
    def _changed(self, cell: Cell, change: Change) -> Iterator[None]:
        """Poison C before a run and reset what user code may have set; verify a call afterwards."""
        if not change.drawn:
            yield
            return
        is_copied = LOCATIONS[cell.host_memory or "pinned"].memory != "managed"
        with self._faults():
            if cell.product.entry.flow in SEQUENTIAL and is_copied:
                self._poison(cell)
                self._stream.synchronize()
            else:
                self.poison(cell)
            if isinstance(cell.product.entry, UserSupplied):
                reset_persisting_l2(self._stream.handle)
        yield
        if isinstance(cell.product.entry, UserCall):
            self._launches.verify(cell.product.entry)

    def _poison(self, cell: Cell, more_bytes: int = 0) -> None:
        """Enqueue the poisoning of C on the device, and of `more_bytes` after it."""
        words = (self._work(cell).c.nbytes + more_bytes) // 4
        self._cuda.memset_d32_async(self._on_device[2], _poison(cell), words, self._stream)

    def trials(self, cell: Cell) -> list[Trial]:
        """Time a run in pieces, and its copies only, in all settings."""
        with self._faults():
            trials = self._runs.trials(cell, self._work(cell))
        self.busy_s += sum(trial.copies_s + trial.run_s for trial in trials)
        return trials

    def throughput(
        self, cell: Cell, batches: Sequence[Batch]
    ) -> tuple[list[Trial[Batch]], list[Matrix]]:
        """Time batches of products over several streams; each stream has its own matrices."""
        if step_build(cell.product):
            raise CellError("the kernel needs prepared operands, which streams would share")
        lanes = Lanes(self._cuda, self._launches, cell.product, self._work(cell))
        with self._faults():
            trials = lanes.times(batches)
        self.busy_s += sum(trial.copies_s + trial.run_s for trial in trials)
        shape = cell.shape
        return trials, [c.reshape(shape.batch, shape.m, shape.n) for c in lanes.products]

    def use(self, settings: dict[Cell, Setting]) -> None:
        """Divide the runs of these cells into pieces by these settings."""
        self._runs.settings |= settings

    def _work(self, cell: Cell, change: Change = SAME, more_bytes: int = 0) -> buffers.Work:
        return self._buffers(cell).work(cell, change, more_bytes)

    def _buffers(self, cell: Cell) -> buffers.HostBuffers:
        """Return the matrices in the cell's kind of host memory; raise CellError."""
        memory = LOCATIONS[cell.host_memory or "pinned"].memory
        if memory not in self._host:
            try:
                self._host[memory] = self._copied(memory)
            except self._cuda.Error as error:
                raise CellError(f"not enough {memory} memory ({error})") from None
        return self._host[memory]

    def _copied(self, memory: str) -> buffers.HostBuffers:
        return buffers.copied(self._inputs, partial(_allocated, self._cuda, memory))

    def _in_turn(self, cell: Cell, change: Change) -> Timing:
        """Execute a run in one stream, with its host steps; wait for its end.

        A user's Python function may use other streams, so the run ends when the last of them ends.
        """
        stream, location = self._stream, LOCATIONS[str(cell.host_memory)]
        work = self._work(cell, change)
        moves = moves_of(self._cuda, stream, location, self._on_device, work)
        launch = self._launches.of(cell.product, on_device=moves.on_device)
        is_call = isinstance(cell.product.entry, UserCall)
        wait = self._cuda.Context.synchronize if is_call else stream.synchronize
        started, copied_in, computed, copied_out = self._events
        with self._faults():
            moves.before()
            begin = time.perf_counter_ns()
            work.prepare()
            prepared = time.perf_counter_ns()
            started.record(stream)
            moves.move_in()
            copied_in.record(stream)
            launch()
            computed.record(stream)
            moves.move_out()
            copied_out.record(stream)
            wait()
            moves.finish()
            computed_ns = time.perf_counter_ns()
            work.finish()
            end = time.perf_counter_ns()
            moves.after()
        has_step = bool(work.before or work.after)
        return Timing(
            (end - begin) / 1e9,
            (prepared - begin + end - computed_ns) / 1e9 if has_step else None,
            started.time_till(copied_in) / 1e3,
            copied_in.time_till(computed) / 1e3,
            computed.time_till(copied_out) / 1e3,
        )

    def kernel_time(
        self, cell: Cell, flushed: bool, change: Change = SAME, observers: Sequence[Observer] = ()
    ) -> KernelTime:
        """Measure the kernel-only time, with launches queued behind a `BlockingKernel`.

        A and B are copied as in a run; then a kernel that is short enough is launched once as a
        warm-up. `flushed`: the L2 is overwritten, so only one launch is timed. If the inputs are
        changed, C is poisoned behind the blocking kernel, and A and B of each launch begin
        `step_bytes` after those of the previous launch. C begins alternately in two places, so that
        a new product overwrites a part of the old product. If the sample is checked, C is copied to
        the host when the timed work ends.
        """
        with observed(observers):
            if cell not in self._kernel_s:
                first = self._kernel_time(cell, flushed, change)
                self._kernel_s[cell] = first.kernel_s
                if first.kernel_s >= _WINDOW_S:
                    return first
            return self._kernel_time(cell, flushed, change)

    def _kernel_time(self, cell: Cell, flushed: bool, change: Change) -> KernelTime:
        known_s = self._kernel_s.get(cell)
        launches = 1
        if known_s and not flushed:
            launches = min(max(math.ceil(_WINDOW_S / known_s), 1), MOST_LAUNCHES)
        step = step_bytes(cell) if change.drawn else 0
        last = step * launches  # the launch before the loop used the first place
        c = self._work(cell.kernel)
        source = int(self._on_device[2]) + step * (launches % 2)

        queued_s = 0.0

        def queue() -> None:
            nonlocal queued_s
            begin = time.perf_counter()
            for number in range(launches):
                launch(step * (number + 1), step * ((number + 1) % 2))
            queued_s = time.perf_counter() - begin

        def before() -> None:
            if change.drawn and not flushed:  # not if flushed: it would load C into the L2
                self._poison(cell, step)

        def after() -> None:
            if change.checked:
                self._cuda.memcpy_dtoh_async(c.c, source, self._stream)

        with self._changed(cell, change):
            launch = self._ready(cell, change, last)
            with self._faults():
                if flushed:
                    self._flush()
                elapsed_s = self._blocking_kernel.elapsed_s(queue, before, after)
                if change.checked:
                    c.finish()
        return KernelTime(launches, elapsed_s / launches, queued_s / launches)

    def load(
        self, cell: Cell, ramp_s: float, length_s: float, observers: Sequence[Observer]
    ) -> float:
        """Launch the kernel back to back; return the mean seconds per launch after `ramp_s`."""
        one_s = self.kernel_time(cell, flushed=False).kernel_s
        queued = min(max(int(_QUEUED_S / one_s), 1), _MAX_QUEUED)
        launch = self._ready(cell)
        begin, end, *ends = self._events
        launches = before = 0  # launches during the ramp, which are not counted
        with self._faults():
            with observed(observers):
                counted_s = time.perf_counter() + ramp_s
                begin.record(self._stream)
                while (now_s := time.perf_counter()) < counted_s + length_s:
                    if not before and now_s >= counted_s:
                        begin.record(self._stream)
                        before = launches
                    for _ in range(queued):
                        launch()
                    launches += queued
                    # One batch is enqueued while the host waits for the previous one.
                    ends.reverse()
                    ends[0].record(self._stream)
                    while launches > queued and not ends[1].query():
                        _poll(observers)
                end.record(self._stream)
                end.synchronize()
            return float(begin.time_till(end)) / 1e3 / (launches - before)

    def idle(self, length_s: float, observers: Sequence[Observer]) -> None:
        """Leave the GPU idle, with this context open."""
        time.sleep(_SETTLE_S)
        with observed(observers):
            end = time.perf_counter() + length_s
            while time.perf_counter() < end:
                _poll(observers)

    def _ready(self, cell: Cell, change: Change = SAME, more_bytes: int = 0) -> Launch:
        """Copy A and B in and warm up a short kernel; return the function that launches it."""
        launch = self._launches.of(cell.product)
        work = self._work(cell, change, more_bytes)
        work.prepare()
        with self._faults():
            to_gpu(self._cuda, self._stream, self._on_device, work)
            if self._kernel_s.get(cell, 0.0) <= _LONG_S:
                launch()
        return launch

    def _flush(self) -> None:
        """Overwrite the L2 by a memset of twice its size."""
        words = 2 * self._device.get_attribute(self._cuda.device_attribute.L2_CACHE_SIZE) // 4
        if self._filler is None:
            self._filler = self._cuda.mem_alloc(4 * words)
        self._cuda.memset_d32_async(self._filler, 0, words, self._stream)

    def ceilings(self) -> list[Ceiling]:
        """Measure the ceilings of GPU, link and clock."""
        with self._faults():
            modules = (self._launches.module(PROBES), self._launches.module(TENSOR_PROBE))
            ceilings, busy_s = gpu_ceilings(self._cuda, self._device, *modules, self._stream)
        self.busy_s += busy_s
        return ceilings

    def product(self, cell: Cell, kernel_only: bool = False) -> Matrix:
        """Return C of the cell's last run, or of its last checked kernel-only sample."""
        return self._buffers(cell.kernel if kernel_only else cell).product(cell)


def _allocated(cuda: Any, memory: str, size: int) -> buffers.Bytes:
    """Return `size` bytes of host memory of a kind (`Location.memory`)."""
    if memory == "pinned":
        return cuda.pagelocked_empty(size, np.uint8)
    if memory == "managed":
        return cuda.managed_empty(size, np.uint8, mem_flags=cuda.mem_attach_flags.GLOBAL)
    return cuda.aligned_empty(size, np.uint8, alignment=_PAGE_BYTES)


def _poison(cell: Cell) -> int:
    """Return the word that marks elements of C as not written."""
    entry = cell.product.entry
    reads_c = isinstance(entry, UserKernel) and entry.facts.reads_c
    return FINITE_POISON_WORD if reads_c else POISON_WORD


def _poll(observers: Sequence[Observer]) -> None:
    for observer in observers:
        observer.during()
    time.sleep(_POLL_S)


def read_limits(cuda: Any, device: Any) -> DeviceLimits:
    """Read a GPU's limits from its device attributes."""
    values = attributes(
        cuda,
        device,
        max_threads_per_block="MAX_THREADS_PER_BLOCK",
        max_shared_bytes_per_block="MAX_SHARED_MEMORY_PER_BLOCK",
        max_shared_bytes_per_block_optin="MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
        max_registers_per_block="MAX_REGISTERS_PER_BLOCK",
        max_grid_x="MAX_GRID_DIM_X",
        max_grid_y="MAX_GRID_DIM_Y",
        max_grid_z="MAX_GRID_DIM_Z",
        warp_size="WARP_SIZE",
    )
    return DeviceLimits(
        **values, memory_bytes=device.total_memory(), compute_capability=device.compute_capability()
    )


def attributes(cuda: Any, device: Any, **names: str) -> dict[str, int]:
    """Return attributes of a GPU; `names` maps our name of each to CUDA's name."""
    return {
        name: device.get_attribute(getattr(cuda.device_attribute, of_cuda))
        for name, of_cuda in names.items()
    }
