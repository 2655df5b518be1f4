"""Running a compiled kernel on arrays; the result has its faults (`KernelFault`) and counts."""

import ctypes
import signal
import subprocess
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from base.errors import StudyError
from base.paths import program, shown
from kernels.catalog.variant import MAX_THREADS
from kernels.host_execution.compiler import HERE, SOURCE_NAME, NotSupported, build_runtime
from kernels.products.matrices import POISON_WORD
from kernels.theory.cost import Total

Array = npt.NDArray[Any]  # of an element type in `kernels.products.elements`
_ALIGNMENT = 256  # bytes, as for allocations on a GPU
_WRITER = np.dtype(
    [
        *(("epoch", np.uint32), ("thread", np.uint16), ("site", np.uint16)),
        *(("read_epoch", np.uint32), ("reader", np.uint16), ("read_site", np.uint16)),
    ]
)
_WORD_BYTES = 4
# In C++, signed overflow is undefined; unsigned integers wrap around, with the same bits.
_COMPUTED = {"int32": "uint32"}
_MEMORIES, _ACCESSES = ("global", "shared"), ("load", "store")
_LINES = 1 << 24  # more lines than any file has
_INCLUDED = dict[str, int]()  # files with code that sources include, numbered from 1
_SEVERAL = 0x8000  # thread numbers from here mean several threads


class Kind(IntEnum):
    """Kinds of faults: those that callers distinguish, of runtime.h and of launches."""

    LAUNCH = -1  # a launch with more threads than allowed
    OTHER = 0
    OUT_OF_BOUNDS = 1
    OUTSIDE_ARRAY = 2
    RACE = 4  # in shared memory
    DIFFERENT_BARRIERS = 7
    APART = 8
    ENDLESS = 9
    SIGNAL = 11
    OVERFLOW = 12
    ENDLESS_BARRIERS = 13
    NOT_IN_MASK = 16
    COPIES_OVERLAP = 17
    NEVER_COMPLETE = 22

    @classmethod
    def _missing_(cls, value: object) -> "Kind":
        return cls.OTHER


class KernelFault(StudyError):  # noqa: N818  the field's word
    """A fault of a kernel; its one-line message has the kernel's name, source line and thread.

    `is_shared`: the fault is in shared memory. `is_same_line`: a race is within one line.
    """

    def __init__(
        self,
        text: str,
        kind: Kind = Kind.OTHER,
        is_shared: bool = False,
        is_same_line: bool = False,
    ) -> None:
        """Describe a fault."""
        super().__init__(text)
        self.kind, self.is_shared, self.is_same_line = kind, is_shared, is_same_line

    def with_text(self, text: str) -> "KernelFault":
        """Return the same fault with another message."""
        return KernelFault(text, self.kind, self.is_shared, self.is_same_line)


class _Fault(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_int32),
        ("buffer", ctypes.c_int32),
        ("code", ctypes.c_uint64),
        ("other_code", ctypes.c_uint64),
        ("byte", ctypes.c_int64),
        ("bytes", ctypes.c_uint32),
        ("is_store", ctypes.c_uint32),
        ("block", ctypes.c_uint32 * 3),
        ("thread", ctypes.c_uint32),
        ("other_thread", ctypes.c_uint32),
    )


class _Cause(ctypes.Structure):
    _fields_ = (("begin", ctypes.c_uint32), ("end", ctypes.c_uint32), ("fault", _Fault))


class _Buffer(ctypes.Structure):
    _fields_ = (
        ("begin", ctypes.c_void_p),
        ("bytes", ctypes.c_uint64),
        ("writers", ctypes.c_void_p),
        ("is_written", ctypes.c_uint32),
        ("is_result", ctypes.c_uint32),
        ("unit", ctypes.c_uint32),
        ("padding", ctypes.c_uint32),
        ("stored", ctypes.c_void_p),
    )


class _Count(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint64),
        ("is_shared", ctypes.c_uint32),
        ("is_store", ctypes.c_uint32),
        ("bytes", ctypes.c_uint32),
        ("padding", ctypes.c_uint32),
        ("accesses", ctypes.c_uint64),
        ("requests", ctypes.c_uint64),
        ("transactions", ctypes.c_uint64),
        ("ideal", ctypes.c_uint64),
        ("lines", ctypes.c_uint64),
    )


class _Launch(ctypes.Structure):
    _fields_ = (
        ("entry", ctypes.c_void_p),
        ("arguments", ctypes.c_void_p),
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("dynamic_shared_bytes", ctypes.c_uint64),
        ("buffers", ctypes.c_void_p),
        ("buffer_count", ctypes.c_uint32),
        ("instrumented", ctypes.c_uint32),
        ("fill", ctypes.c_uint32),
        ("last_block", ctypes.c_uint32),
        ("count_count", ctypes.c_uint32),
        ("cause_count", ctypes.c_uint32),
        ("useful_blocks", ctypes.c_uint32),
        ("store_count", ctypes.c_uint64),
        ("constants", ctypes.c_void_p),
        ("constant_bytes", ctypes.c_uint64),
        ("fault", _Fault),
    )
    kernel = ""  # the kernel's name in messages


@dataclass(frozen=True)
class LineCount(Total):
    """The number of accesses of one size in bytes from one source line.

    `operation` is global_load, global_store, shared_load or shared_store.
    """

    line: int = 0
    operation: str = ""
    bytes: int = 0


@dataclass(frozen=True)
class Run:
    """The outcome of a counted run of a kernel.

    `stored_by[i]` is the source line of the last store to each word of buffer i in order of
    addresses (0: no store), or to each element if elements are smaller. A float64 is two words.
    `cause(i, word)` describes a read of uninitialised shared memory by the block that stored the
    word, None if there was none; `first_cause()` describes the first such read of any block.
    `thread(i, word)` names the thread that stored a word. `useful_blocks` counts the blocks that
    add to a buffer, or store to a word that no other block stores to.
    """

    counts: list[LineCount]
    stored_by: list[npt.NDArray[np.int64]]
    cause: Callable[[int, int], str | None] = lambda _buffer, _word: None
    first_cause: Callable[[], str | None] = lambda: None
    thread: Callable[[int, int], str] = lambda _buffer, _word: ""
    kernel: str = ""
    useful_blocks: int = 0


@dataclass(frozen=True)
class LastBlock:
    """The outcome of a run of only the last block: the bytes that it stored in the last buffer.

    `lines` are the source lines of these stores. `cause` describes an overflow, if there was one.
    """

    bytes: npt.NDArray[np.int64]
    lines: list[int]
    cause: str | None


@dataclass(frozen=True)
class Configured:
    """A launch configuration: grid and block as x, y and z, bytes of dynamic shared memory."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared_bytes: int
    kernel: str = ""  # the kernel's name, if it differs from that of the build


class Kernel:
    """A kernel compiled by `compiler.build_kernel`; its messages name its `source`."""

    def __init__(self, library: Path, source: Path, name: str, counted: bool) -> None:
        self._path = library
        self._source = shown(source)
        self._name = name
        self._counted = counted
        self._library = ctypes.CDLL(str(library))

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self._name

    def run(
        self,
        grid: tuple[int, ...],
        threads: tuple[int, ...],
        arguments: Sequence[Array | int],
        dynamic_shared_bytes: int = 0,
        results: Collection[int] = (),
        fill: int = POISON_WORD,
    ) -> Run:
        """Run the kernel; arrays among the arguments are its buffers, to which it stores.

        `grid` and `threads` have up to three sizes: x, y, z. Arrays must have the element types of
        the kernel. `results` and `fill` are as for `run_configured`. Raise KernelFault. Only a
        counted kernel checks bounds before an access, so run it first.
        """
        arrays = [argument for argument in arguments if isinstance(argument, np.ndarray)]
        copies = aligned_copies(arrays)
        packed = packed_arguments(arguments, copies)
        where = Configured(three(grid), three(threads), dynamic_shared_bytes)
        run = self.run_configured(self.addresses(packed), where, copies, results, fill)
        for array, copy in zip(arrays, copies, strict=True):
            array[...] = copy
        return run

    def addresses(self, packed: "ctypes.Array[ctypes.c_uint64]") -> tuple[int, int]:
        """Return the addresses of the kernel's function and of its `packed_arguments`."""
        entry = ctypes.cast(self._library.host_entry, ctypes.c_void_p).value or 0
        return entry, ctypes.addressof(packed)

    def last_configured_block(
        self, addresses: tuple[int, int], where: Configured, arrays: Sequence[Array]
    ) -> LastBlock:
        """Run the last block of a launch that the library configured, on `arrays` without copies.

        Raise KernelFault. An index that overflows is no fault if no address depends on it.
        """
        launch = self._launch(addresses, where, _buffers(arrays), last_block=True)
        stored, codes = (np.empty(launch.store_count, np.int64) for _ in range(2))
        self._library.host_stores(_pointer(stored), _pointer(codes))
        causes = self._causes(launch)
        return LastBlock(
            stored,
            sorted({self._line(int(code)) for code in np.unique(codes)}),
            self._describe(causes[0].fault, launch) if causes else None,
        )

    def run_configured(
        self,
        addresses: tuple[int, int],
        where: Configured,
        copies: Sequence[Array],
        results: Collection[int] = (),
        fill: int = POISON_WORD,
        stored: Sequence[Array] = (),
    ) -> Run:
        """Run a launch that the library configured, on aligned copies; raise KernelFault.

        `addresses` are those of the kernel's function and of the pointers to its arguments. The
        buffers numbered in `results` contain nothing that the kernel may load, except what earlier
        launches stored. `stored` has an array per buffer, with 1 for each unit that was stored,
        else 0; this launch adds its stores. `fill` is in each word of shared memory.
        """
        buffers = _buffers(copies)
        writers = [np.zeros(units, _WRITER) for units in map(_units, copies)]
        for number, (buffer, words) in enumerate(zip(buffers, writers, strict=True)):
            buffer.writers = words.ctypes.data
            buffer.is_result = number in results
            buffer.stored = stored[number].ctypes.data if stored else None
        launch = self._launch(addresses, where, buffers, fill=fill)
        for units, words in zip(stored, writers, strict=False):
            units |= words["epoch"] != 0
        return self._result(launch, writers)

    def _launch(
        self,
        addresses: tuple[int, int],
        where: Configured,
        buffers: "ctypes.Array[_Buffer]",
        last_block: bool = False,
        fill: int = POISON_WORD,
    ) -> _Launch:
        """Run a launch to its end; return it with its results. Raise KernelFault."""
        self._check_block(where)
        begin, end = ctypes.c_void_p(), ctypes.c_void_p()
        self._library.host_constants(ctypes.byref(begin), ctypes.byref(end))
        launch = _Launch(
            entry=addresses[0],
            arguments=addresses[1],
            grid=where.grid,
            block=where.block,
            dynamic_shared_bytes=where.dynamic_shared_bytes,
            buffers=ctypes.addressof(buffers),
            buffer_count=len(buffers),
            instrumented=self._counted,
            fill=fill,
            last_block=last_block,
            constants=begin.value,
            constant_bytes=(end.value or 0) - (begin.value or 0),
        )
        launch.kernel = where.kernel or self._name
        self._library.host_launch(ctypes.byref(launch))
        fault = launch.fault
        if fault.kind == len(_TEXTS):
            raise NotSupported(f"{self._source}: {self._name}: has more than 256 MiB of variables")
        if fault.kind:
            is_same_line = self._line(fault.code) == self._line(fault.other_code)
            text = self._describe(fault, launch)
            is_shared = fault.buffer < 0 and fault.kind not in (Kind.SIGNAL, Kind.OVERFLOW)
            raise KernelFault(text, Kind(fault.kind), is_shared, is_same_line)
        return launch

    @contextmanager
    def shared_memory_at(self, first: int) -> Iterator[None]:
        """Let the bytes of shared memory have numbers from `first` in PTX, instead of from 0."""
        base = ctypes.c_uint.in_dll(self._library, "host_shared_base")
        base.value = first
        try:
            yield
        finally:
            base.value = 0

    def _check_block(self, where: Configured) -> None:
        """Raise KernelFault if a block has a number of threads that no GPU can launch."""
        name, threads = where.kernel or self._name, prod(where.block)
        most = ctypes.c_uint.in_dll(self._library, "host_launch_bounds").value
        reason = ""
        if threads > MAX_THREADS or 0 in (*where.grid, *where.block):
            reason = (
                f"is launched with a grid of {where.grid} and blocks of {where.block} threads; "
                f"a block has 1 to {MAX_THREADS}"
            )
        elif name == self._name and 0 < most < threads:
            reason = (
                f"__launch_bounds__({most}), but its blocks have {threads} threads: no GPU "
                "launches them"
            )
        if reason:
            raise KernelFault(f"{self._source}: {name}: {reason}", Kind.LAUNCH)

    def _causes(self, launch: _Launch) -> "ctypes.Array[_Cause]":
        causes = (_Cause * launch.cause_count)()
        self._library.host_causes(causes)
        return causes

    def _result(self, launch: _Launch, writers: list[npt.NDArray[np.void]]) -> Run:
        counts = (_Count * launch.count_count)()
        self._library.host_counts(counts)
        causes = self._causes(launch)

        def cause(buffer: int, word: int) -> str | None:
            epoch = int(writers[buffer]["epoch"][word])
            of_block = (each for each in causes if each.begin <= epoch <= each.end)
            return next((self._describe(each.fault, launch) for each in of_block), None)

        def first_cause() -> str | None:
            return self._describe(causes[0].fault, launch) if causes else None

        def thread(buffer: int, word: int) -> str:
            return _thread(int(writers[buffer]["thread"][word]), launch.block)

        lines = [self._line(count.code) for count in counts]
        of_site = np.array([0, *lines])
        return Run(
            [
                LineCount(
                    count.accesses,
                    count.requests,
                    count.transactions,
                    count.ideal,
                    count.lines,
                    line,
                    f"{_MEMORIES[count.is_shared]}_{_ACCESSES[count.is_store]}",
                    count.bytes,
                )
                for line, count in zip(lines, counts, strict=True)
            ],
            [of_site[words["site"]] for words in writers],
            cause,
            first_cause,
            thread,
            launch.kernel,
            launch.useful_blocks,
        )

    def _line(self, code: int) -> int:
        return source_line(self._path, code, SOURCE_NAME)

    def _describe(self, fault: _Fault, launch: _Launch) -> str:
        block = f"block ({', '.join(map(str, fault.block))})"
        thread, other = (
            _thread(index, launch.block) for index in (fault.thread, fault.other_thread)
        )
        other_line = self._line(fault.other_code) % _LINES if fault.other_code else 0
        memory = f"buffer {fault.buffer}"
        if not 0 <= fault.buffer < launch.buffer_count:
            memory = "shared memory" if fault.buffer < 0 else "the file's variables"
        kind = _ACCESSES[fault.is_store]
        access = f"{kind} of {fault.bytes} bytes at byte {fault.byte} of {memory}"
        text = _TEXTS[fault.kind].format(
            access=access,
            index=fault.byte,
            bytes=fault.bytes,
            other=other,
            other_line=other_line,
            signal=_SIGNALS.get(fault.bytes, f"signal {fault.bytes}"),
        )
        place = place_of(self._source, self._line(fault.code))
        return f"{place}: {launch.kernel}, {block}, {thread}: {text}"


# Messages by kind of fault, as in runtime.h.
_TEXTS = (
    "",
    "{access} is out of bounds",
    "index {index} is outside its array",
    "{access} is misaligned",
    "{access} races with {other} at line {other_line}: no barrier is between them",
    "{access} races with {other}, of this or an earlier block, at line {other_line}",
    "{access} is uninitialised: no thread of the block wrote it; a barrier may be missing",
    "waits at this barrier, while {other} waits at the barrier at line {other_line}",
    "waits for {other} of its warp, which waits elsewhere or for other lanes, at line {other_line}",
    "makes more than 500,000 steps without a barrier: does this loop end?",
    "needs more than 60 KiB of stack: is this recursion too deep?",
    "{signal}",
    "a signed integer overflows",
    "waits at more than 8,192 barriers: does this loop end?",
    "copies {bytes} bytes asynchronously; use 4, 8 or 16",
    "needs {bytes:,} bytes of shared memory; use at most 232,448, of these 49,152 static",
    "calls a warp function whose mask {bytes:#x} lacks this lane; name all lanes that call it",
    "copies to byte {index} of shared memory, where the copy of line {other_line} is under way",
    "{access} is uninitialised: nothing was stored there; the kernel must compute C = A·B only",
    "reads a value from lane {index}, which has ended or is not in the mask",
    "executes an instruction for whole warps without lane {index}, which has ended or is missing",
    "loads or stores a fragment with a stride of {bytes} bytes; use a multiple of 16",
    "waits at a barrier object for a phase that never ends: too few threads arrive",
    "uses a barrier object before its init() and a barrier",
    "copies to byte {index} of shared memory, where {other} stores at line {other_line} before the "
    "copy ends",
    "copies asynchronously to memory that is not shared; use cuda::memcpy_async or an assignment",
)


_SIGNALS = {
    signal.SIGFPE: "divides an integer by zero",
    signal.SIGSEGV: "accesses an address outside all memory",
    signal.SIGBUS: "accesses an address outside all memory",
    signal.SIGILL: "an assertion fails, or the kernel traps",
    signal.SIGABRT: "an assertion fails, or the kernel traps",
}


def _pointer(array: npt.NDArray[np.int64] | Array) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def _buffers(arrays: Sequence[Array]) -> "ctypes.Array[_Buffer]":
    """Return arrays in the form that the runtime takes."""
    return (_Buffer * len(arrays))(
        *(_Buffer(each.ctypes.data, each.nbytes, unit=_unit(each)) for each in arrays)
    )


def nothing_stored(buffers: Sequence[Array]) -> list[Array]:
    """Return the initial `stored` for the first of several launches (`Kernel.run_configured`)."""
    return [np.zeros(units, np.uint8) for units in map(_units, buffers)]


def _units(buffer: Array) -> int:
    return -(-buffer.nbytes // _unit(buffer))


def _unit(array: Array) -> int:
    """Return the size of the units in which stores are recorded: an element, at most a word."""
    return min(_WORD_BYTES, array.itemsize)


def three(sizes: Sequence[int]) -> tuple[int, int, int]:
    """Return up to three sizes as x, y and z; missing ones are 1."""
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def _thread(index: int, block: Sequence[int]) -> str:
    """Return the x, y and z of the thread with this index in a block, as text."""
    if index >= _SEVERAL:
        return "several threads"
    across, down = block[0], block[1]
    return f"thread ({index % across}, {index // across % down}, {index // across // down})"


def aligned_copies(arrays: Sequence[Array]) -> list[Array]:
    """Copy arrays to memory with the alignment of a GPU, with gaps between them.

    Each gap is as large as the largest array. An index that is off by a row, a column or a factor
    of 2 therefore does not reach another array.
    """
    gap = max((array.nbytes for array in arrays), default=0) + (1 << 20)
    gap += -gap % _ALIGNMENT
    size = sum(gap + array.nbytes + _ALIGNMENT for array in arrays) + gap
    memory = np.empty(size, np.uint8)  # untouched pages take no memory
    place = gap - memory.ctypes.data % _ALIGNMENT
    copies = []
    for array in arrays:
        copy = memory[place : place + array.nbytes].view(array.dtype).reshape(array.shape)
        copy[...] = array
        copies.append(copy)
        place += array.nbytes + -array.nbytes % _ALIGNMENT + gap
    return copies


def packed_arguments(
    arguments: Sequence[Array | int], arrays: list[Array]
) -> "ctypes.Array[ctypes.c_uint64]":
    """Return pointers to the arguments, then the arguments, with `arrays` as their arrays."""
    remaining, count = iter(arrays), len(arguments)
    packed = (ctypes.c_uint64 * (2 * count))()
    for at, value in enumerate(arguments):
        packed[at] = ctypes.addressof(packed) + ctypes.sizeof(ctypes.c_uint64) * (count + at)
        packed[count + at] = value if isinstance(value, int) else next(remaining).ctypes.data
    return packed


@cache
def source_line(library: Path, code: int, file: str) -> int:
    """Return the line of `file` to which the instruction before `code` in a library belongs.

    For inlined code this is the outermost line; 0 if unknown. Lines of included files have numbers
    from `_LINES` upwards (`place_of`).
    """
    done = subprocess.run(
        [program("addr2line", "binutils"), "-i", "-e", str(library), hex(code - 1)],
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line.split()[0].rpartition(":") for line in done.stdout.splitlines()]
    places = [(Path(path).name, int(number)) for path, _, number in lines if number.isdecimal()]
    inside = [number for name, number in places if name == file]
    others = [place for place in places[-1:] if not (HERE / place[0]).exists()]
    if inside or not others:
        return inside[-1] if inside else 0
    ((name, number),) = others
    return _INCLUDED.setdefault(name, len(_INCLUDED) + 1) * _LINES + number


def place_of(source: str, line: int) -> str:
    """Return the file and the line that a `source_line` denotes; only the file if it is 0."""
    file, number = divmod(line, _LINES)
    name = next((name for name, index in _INCLUDED.items() if index == file), source)
    return f"{name}:{number}" if number else name


@cache
def _runtime(folder: Path) -> ctypes.CDLL:
    return ctypes.CDLL(str(build_runtime(folder)))


def has_fma(folder: Path) -> bool:
    """Return whether this host's CPU has FMA instructions, which the mode `fused` needs."""
    return bool(_runtime(folder).host_has_fma())


def reference(a: Array, b: Array, fused: bool, folder: Path) -> Array:
    """Return the products A·B, shape (batch, m, n), with sums in the order of k.

    `a` has shape (batch, m, k) and `b` (batch, k, n). All have one type: float32, float64, uint32
    or int32. `fused`: each step is one FMA; otherwise products are rounded before the addition.
    Integers wrap around at 32 bits.
    """
    (batch, m, k), n = a.shape, b.shape[2]
    if b.dtype != a.dtype or b.shape[:2] != (batch, k):
        raise ValueError(f"incompatible matrices: {a.dtype}{a.shape} and {b.dtype}{b.shape}")
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    products = np.empty((batch, m, n), a.dtype)
    function = _runtime(folder)[f"host_reference_{_COMPUTED.get(a.dtype.name, a.dtype.name)}"]
    sizes = [ctypes.c_uint64(size) for size in (m, n, k)]
    for matrices in zip(a, b, products, strict=True):
        function(*map(_pointer, matrices), *sizes, int(fused))
    return products
