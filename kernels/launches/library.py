"""A launch compiled for the host, which gives its configuration for any shape, and can be run."""

import ctypes
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from base.paths import shown
from kernels.catalog.source import without_comments
from kernels.host_execution.binding import (
    Array,
    Configured,
    Kernel,
    LastBlock,
    Run,
    aligned_copies,
    nothing_stored,
    place_of,
    three,
)
from kernels.host_execution.compiler import (
    BUILDS,
    CompilerError,
    LaunchCode,
    Mode,
    NotSupported,
    build_kernel,
)
from kernels.launches.constants import with_variables
from kernels.launches.device import for_the_device
from kernels.launches.elsewhere import unknown_in
from kernels.launches.expression import MALLOC, Launch, is_pointer, main_of, needed, words, written
from kernels.launches.includes import without_includes
from kernels.launches.pieces import NOTHING, Piece, declarations, kernels_of, named
from kernels.launches.precision import Precision
from kernels.launches.roles import FACTORS, letter, meaning_of
from kernels.launches.shim import Scope, code, memset, scope_of
from kernels.products.elements import FLOAT, STORED, Stored
from kernels.products.matrices import POISON_WORD
from kernels.products.shape import Shape

_MOST_ARGUMENTS = 32
_MOST_LAUNCHES = 8  # the same limit as in launch.h


class _Record(ctypes.Structure):
    """The structure `HostLaunch` of launch.h."""

    _fields_ = (
        ("entry", ctypes.c_void_p),
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared", ctypes.c_uint64),
        ("count", ctypes.c_uint32),
        ("bytes", ctypes.c_uint32 * _MOST_ARGUMENTS),
        ("arguments", ctypes.c_void_p * (_MOST_ARGUMENTS + 1)),
        ("padding", ctypes.c_uint64),
        ("values", ctypes.c_char * 1024),
    )


@dataclass(frozen=True)
class Source:
    """A file with kernels, and the steps of one product in order, in one scope of names."""

    path: Path
    text: str
    steps: tuple[Launch, ...]
    scope: Scope

    @classmethod
    def of(cls, path: Path, text: str, *steps: Launch) -> "Source":
        """Return the source of a product with these steps."""
        return cls(path, text, steps, scope_of(text, steps))

    @property
    def name(self) -> str:
        """The name of the kernel that multiplies."""
        return self.main.name

    @property
    def main(self) -> Launch:
        """The launch that multiplies."""
        return main_of(self.steps)

    @property
    def kernel(self) -> Piece:
        """The kernel that multiplies, as a piece of the file."""
        return kernels_of(self.text)[self.name]

    @property
    def launches(self) -> list[Launch]:
        """The steps that a GPU executes; calls of cudaMalloc are excluded."""
        return [step for step in self.steps if step.name != MALLOC]

    @property
    def reads_c(self) -> bool:
        """Whether a kernel has a factor for C, and may therefore read C."""
        kernels = kernels_of(self.text)
        return any(has_beta(kernels.get(step.name, NOTHING)) for step in self.steps)

    @property
    def unused_factors(self) -> list[str]:
        """The kernel's alpha and beta, if it takes but uses neither of them."""
        names = map(named, self.kernel.parameters)
        used = words(self.kernel.code[len(self.kernel.header) :])
        factors = [name for name in names if meaning_of(name) in FACTORS]
        return [] if used & set(factors) else factors

    @property
    def has_open_types(self) -> bool:
        """Whether a kernel takes a matrix as ``void *``, so that its element type is not known."""
        return any(re.search(r"\bvoid\b", kind) for kind in self.scope.pointers.values())

    @property
    def takes_any_grid(self) -> bool:
        """Whether a loop advances by the number of blocks, so any number of them is valid."""
        code = without_comments(self.device)
        not_of_block = r"(?:(?!blockIdx)[^;=)])*"
        strides = re.findall(rf"\b(\w+)\s*={not_of_block}\bgridDim\b{not_of_block};", code)
        names = "|".join(["gridDim", *strides])
        return re.search(rf"\+={not_of_block}\b(?:{names})\b", code) is not None

    @property
    def loops_over_blocks(self) -> bool:
        """Whether a loop begins at the block's index, advances by the grid, or counts work."""
        code = without_comments(self.device)
        indices = re.findall(r"\b(\w+)\s*=\s*blockIdx\s*\.\s*[xyz]\s*[;,]", code)
        advance = any(re.search(rf"\b{index}\s*\+=", code) for index in indices)
        return advance or self.takes_any_grid or bool(re.search(r"=\s*atomicAdd\s*\(", code))

    @property
    def precision(self) -> Precision:
        """What the code rounds, judged by names of CUDA or PTX; its types are still unknown.

        Code for tensor cores may round operands to TF32, or numbers to a 16-bit type.
        """
        code = without_comments(self.device)
        rounds = re.search(r"__float\w*2(half|bfloat16)", code)
        return Precision(
            uses_tf32=bool(re.search(r"__float_to_tf32|precision::tf32|\.tf32\b", code)),
            rounded_to=STORED[rounds[1][0]] if rounds and self.uses_tensor_cores else None,
        )

    @property
    def uses_tensor_cores(self) -> bool:
        """Whether the code multiplies fragments or uses PTX's mma instructions."""
        return re.search(r"\bmma_sync\b|\bmma\.sync\b", without_comments(self.device)) is not None

    @property
    def device(self) -> str:
        """The code that the launches need; all other code is removed."""
        own = {*self.scope.numbers, *self.scope.pointers} - set(kernels_of(self.text))
        names = words(written(self.steps)) - own | set(self.scope.constants)
        return for_the_device(self.text, names) + memset(self.steps)

    @property
    def for_the_host(self) -> str:
        """The code that the launches need, without include directives of headers."""
        return without_includes(self.device)

    @property
    def arguments(self) -> set[str]:
        """The names in the arguments of the launches, and in the values of these arguments."""
        alone = (replace(step, configuration="") for step in self.steps)
        return {
            name
            for step in alone
            for name in words(" ".join([step.call, *needed(self.scope.statements(step), step)]))
        }

    def library(self, mode: Mode, folder: Path = BUILDS) -> "Library":
        """Compile the source for the host; raise NotSupported or CompilerError.

        In the mode "launch", kernels have no bodies: the library only evaluates the launches.
        """
        if len(self.launches) > _MOST_LAUNCHES:
            raise NotSupported(
                f"{shown(self.path)}: {self.name}: a product of {len(self.launches)} launches; use "
                f"at most {_MOST_LAUNCHES}"
            )
        device = with_variables(self.for_the_host, self.scope.constants)
        if mode == "launch":
            device = declarations(device)
        launch = LaunchCode(device, code(self.text, self.steps, self.scope))
        try:
            built = build_kernel(self.name, self.path, {}, mode, folder, launch)
        except CompilerError as error:
            name = unknown_in(error)
            how = f"; if it is a macro or a type, give it by -D {name}=" if name else ""
            where = f"{shown(self.path)}: {self.name}: its launch: "
            text = re.sub(r"^\S*configure\.h:\d+: ", where, str(error))
            raise CompilerError(f"{text}{how}") from None
        names = [step.name for step in self.launches]
        return Library(built, self.path, self.name, mode == "counted", names)


def may_add(kernel: Piece) -> bool:
    """Return whether a kernel of four matrices may add one, judged by its parameters' names."""
    letters = {letter(named(each)) for each in kernel.parameters if is_pointer(each)}
    return has_beta(kernel) or letters == set("ABCD")


def has_beta(kernel: Piece) -> bool:
    """Return whether a kernel has a factor for the matrix that it adds."""
    return any(meaning_of(named(each)) == "BETA" for each in kernel.parameters)


class Library(Kernel):
    """Compiled launches; numbers and matrices are passed in the order of the scope's names."""

    def __init__(
        self, library: Path, source: Path, name: str, counted: bool, names: Sequence[str] = ()
    ) -> None:
        """Use the launches of the kernels `names`; the kernel `name` multiplies."""
        super().__init__(library, source, name, counted)
        self._names = names or [name]

    def configured(self, numbers: Sequence[float], addresses: Sequence[int]) -> list[Configured]:
        """Return the configurations of a product's launches, for these values of its names."""
        return [configured for _, configured in self._launches(numbers, addresses)]

    def multiplies(self, numbers: Sequence[float], addresses: Sequence[int]) -> Configured:
        """Return the configuration of the launch that multiplies."""
        return self.configured(numbers, addresses)[self._names.index(self._name)]

    def allocated(self, numbers: Sequence[float], pointers: int) -> list[int]:
        """Return how many bytes the steps allocate for each pointer; 0 for others."""
        self._records(numbers, [0] * pointers)
        return list((ctypes.c_uint64 * 32).in_dll(self._library, "host_bytes"))[:pointers]

    def elements(self, numbers: Sequence[float], pointers: int) -> list[Stored]:
        """Return the element type of each of the scope's pointers; float if it is unknown."""
        self._records(numbers, [0] * pointers)
        letters = (ctypes.c_char * 32).in_dll(self._library, "host_elements").raw
        return [STORED.get(chr(letter), FLOAT) for letter in letters[:pointers]]

    def fixed_shape(self) -> Shape | None:
        """Return the only shape that a kernel computes if its file fixes the sizes; else None."""
        sizes = tuple((ctypes.c_uint * 3).in_dll(self._library, "host_fixed"))
        return Shape(1, *sizes) if all(sizes) else None

    def at(self, line: int, kernel: str = "") -> str:
        """Return the beginning of an error message: file, line (if it is not 0) and kernel."""
        return f"{place_of(self._source, line)}: {kernel or self._name}"

    def packed(
        self, numbers: Sequence[float], addresses: Sequence[int]
    ) -> list[tuple[int, Configured, tuple[bytes, ...]]]:
        """Return for each launch the kernel's address on the host, configuration, arguments."""
        return [
            (
                record.arguments[0],
                configured,
                tuple(
                    ctypes.string_at(record.arguments[1 + place], record.bytes[place])
                    for place in range(record.count)
                ),
            )
            for record, configured in self._launches(numbers, addresses)
        ]

    def _launches(
        self, numbers: Sequence[float], addresses: Sequence[int]
    ) -> list[tuple[_Record, Configured]]:
        records = self._records(numbers, addresses)
        names = self._names if len(self._names) == len(records) else [""] * len(records)
        pairs = zip(records, names, strict=True)
        return [(record, _configured(record, name)) for record, name in pairs]

    def _records(self, numbers: Sequence[float], addresses: Sequence[int]) -> list[_Record]:
        configure = self._library.host_configure
        configure.restype = ctypes.POINTER(_Record)
        count = ctypes.c_uint32()
        records = configure(
            (ctypes.c_double * (len(numbers) + 1))(*numbers),
            (ctypes.c_void_p * (len(addresses) + 1))(*addresses),
            ctypes.byref(count),
        )
        return [records[index] for index in range(count.value)]

    def multiply(
        self,
        numbers: Sequence[float],
        pointers: Sequence[int],
        arrays: Sequence[Array],
        geometry: tuple[Sequence[int], Sequence[int]] | None = None,
        results: Collection[int] = (),
        fill: int = POISON_WORD,
    ) -> list[Run]:
        """Run the launches; `pointers` has the index in `arrays` of each of the scope's pointers.

        `geometry` replaces grid and block of the last launch. `results` and `fill` are as for
        `run_configured`. The arrays receive the stores. Raise KernelFault.
        """
        copies = aligned_copies(arrays)
        addresses = [copies[place].ctypes.data for place in pointers]
        launches = self._launches(numbers, addresses)
        if geometry:
            record, where = launches[-1]
            grid, block = (three(sizes) for sizes in geometry)
            launches[-1] = record, replace(where, grid=grid, block=block)
        stored = nothing_stored(copies) if len(launches) > 1 else []
        runs = [
            self.run_configured(_entry(record), where, copies, results, fill, stored)
            for record, where in launches
        ]
        for array, copy in zip(arrays, copies, strict=True):
            array[...] = copy
        return runs

    def last_block(
        self, numbers: Sequence[float], pointers: Sequence[int], arrays: Sequence[Array]
    ) -> LastBlock:
        """Run the last block of the last launch on `arrays` without copies; raise KernelFault."""
        addresses = [arrays[place].ctypes.data for place in pointers]
        record = self._records(numbers, addresses)[-1]
        return self.last_configured_block(_entry(record), _configured(record), arrays)


def _entry(record: _Record) -> tuple[int, int]:
    return record.entry, ctypes.addressof(record) + _Record.arguments.offset


def _configured(record: _Record, name: str = "") -> Configured:
    return Configured(three(record.grid), three(record.block), record.shared, name)
