"""A launch compiled for the host: its configuration for any shape, and its runs."""

import ctypes
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kernels.catalog.source import without_comments
from kernels.host_execution.binding import (
    Array,
    Configured,
    Kernel,
    LastBlock,
    Run,
    aligned_copies,
)
from kernels.host_execution.compiler import BUILDS, CompilerError, LaunchCode, Mode, build_kernel
from kernels.launches.constants import with_variables
from kernels.launches.device import for_the_device
from kernels.launches.expression import Launch, named, parameters, words
from kernels.launches.pieces import declarations, kernels_of
from kernels.launches.roles import meaning_of
from kernels.launches.shim import Scope, code
from kernels.products.elements import FLOAT, STORED, Stored
from kernels.products.matrices import POISON_WORD
from kernels.products.shape import Shape

_MOST_ARGUMENTS = 32
_UNKNOWN = re.compile(r"‘(\w+)’ (?:(?:was not|has not been) declared|does not name a type)")
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*(?:<[^>\n]*>|\"[^\"\n]*\")[^\n]*", re.MULTILINE)


class _Record(ctypes.Structure):
    """`HostLaunch` in launch.h."""

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
    """A file of kernels, and the launches of one product in order, in one scope of names."""

    path: Path
    text: str
    launches: tuple[Launch, ...]
    scope: Scope

    @property
    def name(self) -> str:
        """The name of the kernel that is launched last."""
        return self.launches[-1].name

    @property
    def reads_c(self) -> bool:
        """Whether a kernel has a factor for C, so that it may read C."""
        kernel = kernels_of(self.text).get(self.name)
        names = parameters(kernel, self.name) if kernel else []
        return any(meaning_of(named(each)) == "BETA" for each in names)

    @property
    def uses_tf32(self) -> bool:
        """Whether its code names TF32, so that operands are rounded to it."""
        return "tf32" in without_comments(self.device).lower()

    @property
    def device(self) -> str:
        """The code that the launches need."""
        launched = set[str]().union(*(words(str(launch)) for launch in self.launches))
        return for_the_device(self.text, launched)

    @property
    def arguments(self) -> set[str]:
        """The names in the arguments and template arguments of the launches."""
        return {word for each in self.launches for word in words(f"{each.kernel} {each.arguments}")}

    def library(self, mode: Mode, folder: Path = BUILDS) -> "Library":
        """Compile it for the host; raise NotSupported or CompilerError.

        In the mode "launch", kernels have no bodies: the library only evaluates the launches.
        """
        device = with_variables(_INCLUDE.sub("", self.device), self.scope.constants)
        if mode == "launch":
            device = declarations(device)
        launch = LaunchCode(device, code(self.text, self.launches, self.scope))
        try:
            built = build_kernel(self.name, self.path, {}, mode, folder, launch)
        except CompilerError as error:
            unknown = re.search(
                r"‘(\w+)’ (?:(?:was not|has not been) declared|does not name a type)", str(error)
            )
            how = f"; if it is a macro or a type, give it by -D {unknown[1]}=" if unknown else ""
            raise CompilerError(f"{error}{how}") from None
        return Library(built, self.path, self.name, mode == "counted")


class Library(Kernel):
    """A compiled launch. Numbers and matrices are given by the names in its scope."""

    def configured(self, numbers: Sequence[float], addresses: Sequence[int]) -> list[Configured]:
        """Return the launches of a product with these values of the scope's names."""
        return [_configured(record) for record in self._records(numbers, addresses)]

    def elements(self, numbers: Sequence[float], pointers: int) -> list[Stored]:
        """Return the element types of the scope's pointers, float where they are unknown."""
        self._records(numbers, [0] * pointers)
        letters = (ctypes.c_char * 32).in_dll(self._library, "host_elements").raw
        return [STORED.get(chr(letter), FLOAT) for letter in letters[:pointers]]

    def fixed_shape(self) -> Shape | None:
        """Return the only shape of a kernel whose sizes its file fixes; else None."""
        sizes = tuple((ctypes.c_uint * 3).in_dll(self._library, "host_fixed"))
        return Shape(1, *sizes) if all(sizes) else None

    def at(self, line: int) -> str:
        """Return the beginning of a message: file, line and kernel."""
        return f"{self._source}:{line}: {self._name}"

    def packed(
        self, numbers: Sequence[float], addresses: Sequence[int]
    ) -> list[tuple[int, Configured, tuple[bytes, ...]]]:
        """Return for each launch the kernel's address here, its configuration and its arguments."""
        return [
            (
                record.arguments[0],
                _configured(record),
                tuple(
                    ctypes.string_at(record.arguments[1 + place], record.bytes[place])
                    for place in range(record.count)
                ),
            )
            for record in self._records(numbers, addresses)
        ]

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
        result: int | None = None,
        fill: int = POISON_WORD,
    ) -> list[Run]:
        """Run the launches; `pointers` are the places in `arrays` of the scope's pointers.

        `geometry` replaces grid and block of the last launch. `result` and `fill`: those of
        `run_configured`. The arrays receive the stores. Raise KernelFault.
        """
        copies = aligned_copies(arrays)
        addresses = [copies[place].ctypes.data for place in pointers]
        records = self._records(numbers, addresses)
        for target, sizes in zip(
            (records[-1].grid, records[-1].block), geometry or (), strict=False
        ):
            target[:] = (*sizes, 1, 1)[:3]
        runs = [
            self.run_configured(
                (record.entry, ctypes.addressof(record) + _Record.arguments.offset),
                _configured(record),
                copies,
                result,
                fill,
            )
            for record in records
        ]
        for array, copy in zip(arrays, copies, strict=True):
            array[...] = copy
        return runs

    def last_block(
        self, numbers: Sequence[float], pointers: Sequence[int], arrays: Sequence[Array]
    ) -> LastBlock:
        """Run the last block of the last launch on arrays as they are; raise KernelFault."""
        addresses = [arrays[place].ctypes.data for place in pointers]
        record = self._records(numbers, addresses)[-1]
        begin = ctypes.addressof(record) + _Record.arguments.offset
        return self.last_configured_block((record.entry, begin), _configured(record), arrays)


def _configured(record: _Record) -> Configured:
    grid, block = (tuple(sizes) for sizes in (record.grid, record.block))
    return Configured(grid, block, record.shared)
