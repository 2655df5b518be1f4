"""One file with a kernel and its launch, which is built for GPUs and kept in recordings.

The file contains the code for the device, then the launch as C++ that every compiler can evaluate
(`kernels.launches.shim`), then its facts (`kernels.catalog.user_supplied`). nvcc instantiates the
kernels that the launch names. g++ compiles only their declarations, and evaluates the launch.
"""

import ctypes
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import prod
from pathlib import Path

from base.errors import StudyError
from base.files import write_atomic
from base.paths import shown
from kernels.catalog.entries import VARIANTS
from kernels.catalog.user_supplied import Facts, LaunchFacts, read
from kernels.catalog.variant import UserKernel
from kernels.host_execution.binding import Configured
from kernels.host_execution.compiler import BUILDS, HERE, LaunchCode, build_kernel
from kernels.launches.checks import Judged
from kernels.launches.constants import with_variables
from kernels.launches.expression import written
from kernels.launches.includes import without_includes
from kernels.launches.library import Library
from kernels.launches.pieces import blanked, declarations
from kernels.launches.reading import ONE, Reading
from kernels.launches.roles import ADDEND, WORKSPACE
from kernels.launches.shim import code
from kernels.launches.trials import Trial
from kernels.products.shape import Shape

_BEGIN = "// The launch, for nvcc and g++."
# Headers that nvcc has: those of the device's code, and of C and C++.
_OF_NVCC = re.compile(
    r"cuda(?:_\w+)?\.h|cuda/[\w/]+|cooperative_groups(?:/\w+)?\.h|mma\.h|sm_\w+\.h|\w+_types\.h|"
    r"(?:assert|float|limits|math|std\w+|string)\.h|[a-z_]+"
)
_WORDS = "#include <cstdint>\n"  # libraries' headers would include it
_ALIGNMENT = 256  # alignment in bytes of memory that steps allocate
_SIZE = 1024  # used if the file fixes the sizes of its program
_DTYPES = {"float": "float32", "double": "float64", "int": "int32", "unsigned": "int32"}
_FOR_NVCC = (HERE / "for_nvcc.h").read_text()
# What hides kernels from other files, and so from the driver, which finds them by their names.
_STATIC = re.compile(r"\bstatic\b(?=[^;{}]*\b__global__\b)|(?<=__global__)\s+static\b")
_UNNAMED = re.compile(r"\b(?:inline\s+)?namespace(?=\s*\{)")


def facts_of(judged: Judged) -> LaunchFacts:
    """Return the facts of a launch, from the verdict on it."""
    source, reading, shape = judged.source, judged.reading, judged.shapes[0]
    launched = Trial(source.library("launch"), reading).configured(shape)
    return LaunchFacts.model_validate(
        {
            "launch": written(source.steps),
            "numbers": tuple(reading.numbers.values()),
            "pointers": tuple(reading.matrices.values()),
            "layout": reading.layout,
            "dtype": _dtype(reading),
            "tile": judged.tile,
            "threads": prod(launched.block),
            "shared_bytes": launched.dynamic_shared_bytes,
            "multiple": max(1, judged.multiple),
            "fixed": (shape.m, shape.n, shape.k) if judged.is_fixed else None,
            "is_square": reading.is_square,
            "reads_c": reading.reads_c,
        }
    )


def _dtype(reading: Reading) -> str | None:
    """Return the element type of all matrices; None if products of this kind are not timed."""
    precision, layout = reading.precision, reading.layout
    is_mixed = layout[2] and not all(layout)
    names = {matrix.name for matrix in (precision.a, precision.b, precision.c)}
    has_bound = len(names) == 1 and not (precision.uses_tf32 or precision.short_sums)
    if is_mixed or reading.factors != ONE or not has_bound:
        return None
    return _DTYPES.get(names.pop())


def write(judged: Judged, baseline: str | None, folder: Path) -> UserKernel:
    """Write the program for a judged kernel to a folder of its name; return its variant."""
    source = judged.source
    name = source.name if source.name not in VARIANTS else f"{source.name}_of_a_user"
    rename = f"#define {source.name} {name}\n" if name != source.name else ""
    launch, device, scope = facts_of(judged), source.device, source.scope
    if scope.constants:  # constants of the file become the sizes of this program
        size = launch.multiple * -(-_SIZE // launch.multiple)
        launch = launch.model_copy(update={"fixed": (size, size, size)})
        device = with_variables(device, scope.constants, size)
        scope = replace(scope, constants=())
    facts = Facts(name=name, baseline=baseline, launch=launch)
    parts = [
        f"{_WORDS}{rename}#line 1\n"
        + without_includes(_with_external_kernels(device), kept=_OF_NVCC),
        _BEGIN,
        _FOR_NVCC + code(source.text, source.steps, scope),
        facts.line(".cu"),
    ]
    path = folder / name / f"{name}.cu"
    write_atomic(path, "\n".join(parts))
    entry = read(path)
    assert isinstance(entry, UserKernel)
    return entry


def _with_external_kernels(device: str) -> str:
    """Return a source whose kernels have external linkage."""
    code = blanked(device)
    edits = [(match.span(), "") for match in _STATIC.finditer(code)]
    edits += [(match.span(), "inline namespace of_file") for match in _UNNAMED.finditer(code)]
    for (begin, end), text in sorted(edits, reverse=True):
        device = device[:begin] + text + device[end:]
    return device


@dataclass(frozen=True)
class Packed:
    """One launch of a product on a GPU: mangled name of its kernel, configuration, arguments."""

    symbol: str
    configured: Configured
    arguments: tuple[bytes, ...]


class Program:
    """The launch of a program, compiled for the host to be evaluated there."""

    def __init__(self, entry: UserKernel, folder: Path = BUILDS) -> None:
        """Compile the launch; raise StudyError if g++ does not accept it."""
        self._path, self._entry, self._folder = Path(entry.file), entry, folder

    @cached_property
    def _library(self) -> Library:
        text = self._path.read_text()
        device, marked, launch = text.partition(_BEGIN)
        if not marked:
            raise StudyError(f"{shown(self._path)}: contains no launch; use gemm-study try")
        parts = LaunchCode(declarations(without_includes(device)), launch)
        kernel = self._entry.kernel
        built = build_kernel(kernel, self._path, {}, "launch", self._folder, parts)
        return Library(built, self._path, kernel, counted=False)

    def workspace_bytes(self, shape: Shape) -> int:
        """Return how many bytes the steps of a product allocate together."""
        return sum(self._allocated(self._values(shape)))

    def packed(self, shape: Shape, addresses: Sequence[int], workspace: int = 0) -> list[Packed]:
        """Return the launches of a product of row-major A, B and C at these addresses.

        `workspace` is the address of `workspace_bytes`. A matrix that is added is in C's memory.
        """
        facts, (a, b, c) = self._entry.facts, addresses
        if self._is_in_columns:
            a, b = b, a
        matrices, values = {"A": a, "B": b, "C": c, ADDEND: c}, self._values(shape)
        pointers = []
        for matrix, size in zip(facts.pointers, self._allocated(values), strict=True):
            pointers.append(matrices.get(matrix, workspace))
            workspace += size
        return [
            Packed(_symbol(address), configured, arguments)
            for address, configured, arguments in self._library.packed(values, pointers)
        ]

    @property
    def _is_in_columns(self) -> bool:
        """Whether the kernel is for column-major matrices and so computes Cᵀ = Bᵀ·Aᵀ."""
        return self._entry.facts.layout == (True, True, True)

    def _values(self, shape: Shape) -> list[float]:
        facts = self._entry.facts
        if self._is_in_columns:
            shape = Shape(shape.batch, shape.n, shape.m, shape.k)
        reading = Reading(
            {str(place): meaning for place, meaning in enumerate(facts.numbers)},
            {str(place): matrix for place, matrix in enumerate(facts.pointers)},
            facts.is_square,
            reads_c=facts.reads_c,
            layout=facts.layout,
        )
        return reading.values(shape)

    def _allocated(self, values: Sequence[float]) -> list[int]:
        """Return the bytes allocated for each pointer, multiples of `_ALIGNMENT`; 0 for others."""
        pointers = self._entry.facts.pointers
        if WORKSPACE not in pointers:
            return [0] * len(pointers)
        pairs = zip(pointers, self._library.allocated(values, len(pointers)), strict=True)
        return [-(-size // _ALIGNMENT) * _ALIGNMENT * (each == WORKSPACE) for each, size in pairs]


@lru_cache(64)
def program(entry: UserKernel) -> Program:
    """Return the program of a variant, compiled once per process."""
    return Program(entry)


class _Symbol(ctypes.Structure):
    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def _symbol(address: int) -> str:
    """Return the name that a linker gives to the function at an address."""
    symbol = _Symbol()
    ctypes.CDLL(None).dladdr(ctypes.c_void_p(address), ctypes.byref(symbol))
    return symbol.name.decode() if symbol.name else ""
