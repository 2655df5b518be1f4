"""User-supplied kernels: the declarations in a file, as a variant.

A file contains one kernel with one of the catalog's two signatures, which defines its name, element
type and shapes. A comment line declares the rest:

    // try: tile=32x32 threads=32x8

`KEYS` lists the declarations. ``block=16,32`` lists block sizes, for each of which the file is
compiled with ``-DBLOCK=``. Then sizes may contain it, as in ``tile=BLOCKxBLOCK``.

A .py file contains a function ``multiply(a, b, c, stream)`` instead, with the name of the file as
its variant. The function has a library enqueue the product of float32 matrices on a GPU. The file
is parsed; it runs only where it is timed, in a process of its own.
"""

import ast
import operator
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NoReturn

from base.errors import StudyError
from base.paths import shown
from base.validation import check_known
from kernels.catalog.catalog import Catalog
from kernels.catalog.entries import VARIANTS
from kernels.catalog.source import without_comments
from kernels.catalog.variant import MAX_THREADS, Launch, UserCall, UserKernel, UserSupplied
from kernels.products.elements import ELEMENTS
from kernels.products.shape import Shape
from kernels.theory.cost import OPERATIONS
from kernels.theory.tiles import BlockSize

EXAMPLE = "// try: tile=32x32 threads=32x32"
CALL = "multiply"
_CALL_ARGUMENTS = 4
_MOST_BYTES = 1 << 20  # of a file
_CALL_KEYS = ("baseline",)
# Former names of keys, which sources in recordings still have.
_FORMER = {"after": "baseline"}
KEYS = {
    "tile": "rows x columns of C per block; a third number: K per iteration",
    "threads": "threads per block, along x and y",
    "block": "block sizes, which replace BLOCK (default: none)",
    "shared": "bytes of dynamic shared memory, called smem (default: 0)",
    "x": "direction of blockIdx.x: columns of C, or rows (default: columns)",
    "batched": "yes: blockIdx.z is the product of a batch (default: no)",
    "tolerance": "bits: sums in the order of k; bound: within the error bound (default: bits)",
    "baseline": "the variant of the catalog to compare with",
    **dict.fromkeys(
        (f"{o}s" for o in OPERATIONS), "expected number per thread; a formula of m, n, k"
    ),
}
_LARGEST = 2**31 - 1  # of sizes
_LONGEST = 200  # characters of a formula
_BLOCK_SIZE = re.compile("[1-9][0-9]{0,8}")
_LINE = re.compile(r"^\s*(?://|/?\*+|#)\s*try:(.*?)(?:\*/\s*)?$")
_BOUNDS = r"(?:__launch_bounds__\s*\([^)]{0,200}\)\s*)?"
_KERNEL = re.compile(
    rf'extern\s+"C"\s*(?:\{{\s*)?{_BOUNDS}__global__\s+{_BOUNDS}void\s+{_BOUNDS}'
    r"(\w+)\s*\(([^)]{0,2000})\)"
)
_POINTER = re.compile(r"(const )?(\w+)(?: const)? ?\* ?(?:(?:const|__restrict(?:__)?) ?)*\w+")
_NUMBER = re.compile(r"(?:const )?int (?:const )?\w+")
_DTYPES: dict[str, tuple[str, ...]] = {
    element.c_type: (name,) for name, element in ELEMENTS.items()
}
_DTYPES |= {"int": ("int32",), "ELEMENT": tuple(ELEMENTS)}
_SIGNATURES = (
    "(const float *a, const float *b, float *c, int n) or "
    "(const ELEMENT *a, const ELEMENT *b, ELEMENT *c, int m, int n, int k)"
)
_OPERATIONS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def catalog_of(texts: Mapping[str, Sequence[str]]) -> Catalog:
    """Return the catalog with the variants that sources declare; sources are lines, by path.

    The texts are parsed, never run. A file must have the name of its kernel. Raise StudyError as
    `read` does.
    """
    entries = [_parsed(Path(name), "\n".join(lines)) for name, lines in texts.items()]
    for entry in entries:
        if entry.name != (path := Path(entry.file)).stem:
            _refuse(path, 1, f"contains {entry.name}; name the file after its kernel")
    return VARIANTS.joined(*entries)


def read(path: Path) -> UserSupplied:
    """Return the variant that a file declares; print a hint to stderr for a former key.

    Raise StudyError, beginning with file and line, if the file declares no valid variant.
    """
    path = path.absolute()
    text = source_text(path)
    for number, key, _ in _declarations(text):
        if key in _FORMER:
            hint = f"{shown(path)}:{number}: {key}= is now {_FORMER[key]}="
            print(hint, file=sys.stderr)
    return _parsed(path, text)


def source_text(path: Path) -> str:
    """Return the text of a file; raise StudyError if it is not a text of at most 1 MB."""
    if path.exists() and not path.is_file():
        raise StudyError(f"{shown(path)}: is not a regular file; name a .cu or a .py file")
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise StudyError(f"{shown(path)}: is larger than 1 MB; name a file with one kernel")
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not valid UTF-8"
        how = "name a .cu file with one kernel, or a .py file"
        raise StudyError(f"{shown(path)}: {reason}; {how}") from None


def _parsed(path: Path, text: str) -> UserSupplied:
    return _call(path, text) if path.suffix == ".py" else _kernel(path, text)


def _call(path: Path, text: str) -> UserCall:
    """Return the call in a Python file, without running it."""
    wanted = f"def {CALL}(a, b, c, stream)"
    try:
        body = ast.parse(text).body
    except SyntaxError as error:
        _refuse(path, error.lineno or 1, f"{error.msg} (Python)")
    except (ValueError, RecursionError, MemoryError) as error:
        _refuse(path, 1, f"is not valid Python: {error}")
    calls = [node for node in body if isinstance(node, ast.FunctionDef) and node.name == CALL]
    if len(calls) != 1:
        how = "more than one" if calls else "no"
        _refuse(path, 1, f"contains {how} function {CALL}; write exactly one {wanted}")
    if len(calls[0].args.posonlyargs + calls[0].args.args) != _CALL_ARGUMENTS:
        _refuse(path, calls[0].lineno, f"{CALL}: wrong parameters; write {wanted}")
    if not re.fullmatch(r"[A-Za-z]\w*", path.stem, re.ASCII):
        _refuse(path, 1, "the file name is not a valid variant name; use letters, digits and _")
    declared = _Declared.of(path, text)
    for key in declared.values:
        if key not in _CALL_KEYS:
            declared.refuse(key, f"is a key of kernels; for a call, use {', '.join(_CALL_KEYS)}")
    return UserCall(shapes="single", **declared.facts(path.stem, 1, "call"))


def _kernel(path: Path, text: str) -> UserKernel:
    """Return the kernel in a CUDA file, with every value checked for every block size."""
    name, line, dtypes, is_square = _signature(path, text)
    declared = _Declared.of(path, text, "tile", "threads")
    facts = declared.facts(name, line, "kernel")
    blocks = declared.block_sizes()
    for block in blocks or (None,):
        declared.tile(block)
        if declared.launch(Shape.square(1), block).threads_per_block > MAX_THREADS:
            declared.refuse("threads", f"more than {MAX_THREADS} threads per block, the maximum")
    declared.one_of("x", "columns", "rows")
    batched = declared.one_of("batched", "no", "yes") == "yes"
    if batched and is_square:
        declared.refuse("batched", "needs the signature with m, n and k")
    claims = {o: partial(declared.claim, f"{o}s") for o in OPERATIONS if f"{o}s" in declared.values}
    for claim in claims.values():
        claim(Shape.square(1), (blocks or (None,))[0])
    return UserKernel(
        kernel=name,
        tile=declared.tile,
        geometry=declared.launch,
        block_sizes=blocks,
        fixed_blocks=blocks is not None,
        dtypes=dtypes,
        shapes="square" if is_square else "batched" if batched else "single",
        in_order=declared.one_of("tolerance", "bits", "bound") == "bits",
        claims=claims,
        **facts,
    )


def _refuse(path: Path, line: int, message: str) -> NoReturn:
    raise StudyError(f"{shown(path)}:{line}: {message}")


def _signature(path: Path, text: str) -> tuple[str, int, tuple[str, ...], bool]:
    """Return name, line and element types of the kernel, and whether it takes n only."""
    code = without_comments(text)
    kernels = list(_KERNEL.finditer(code))
    if len(kernels) != 1:
        line = code.count("\n", 0, kernels[1].start()) + 1 if kernels else 1
        how = "contains more than one kernel" if kernels else 'no kernel: extern "C" __global__'
        _refuse(path, line, f'{how}; write one, as extern "C" __global__ void NAME{_SIGNATURES}')
    name, line = kernels[0][1], code.count("\n", 0, kernels[0].start(1)) + 1
    parameters = [" ".join(parameter.split()) for parameter in kernels[0][2].split(",")]
    pointers = [_POINTER.fullmatch(parameter) for parameter in parameters[:3]]
    numbers = parameters[3:]
    types = {match[2] for match in pointers if match}
    fits = len(types) == 1 and all(pointers) and all(map(_NUMBER.fullmatch, numbers))
    if not fits or len(numbers) not in (1, 3) or not types <= set(_DTYPES):
        given = f"{name}({', '.join(parameters)})"
        _refuse(path, line, f"{given}: unsupported signature; write {_SIGNATURES}")
    return name, line, _DTYPES[types.pop()], len(numbers) == 1


def _declarations(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, key and value of each declaration; the value is empty if there is none."""
    for number, line in enumerate(text.splitlines(), start=1):
        match = _LINE.match(line)
        for pair in match[1].split() if match else []:
            key, _, value = pair.partition("=")
            yield number, key, value


@dataclass(frozen=True)
class _Declared:
    """The declared values of a file as text, and their lines."""

    path: Path
    values: Mapping[str, str]
    lines: Mapping[str, int]

    @classmethod
    def of(cls, path: Path, text: str, *needed: str) -> "_Declared":
        """Return what the text declares, with at least the keys `needed`."""
        values: dict[str, str] = {}
        lines: dict[str, int] = {}
        for number, given, value in _declarations(text):
            if not value:
                how = f"not key=value; write it without spaces, {EXAMPLE}"
                _refuse(path, number, f"{given:.60}: {how}")
            key = _FORMER.get(given, given)
            try:
                check_known("key", key, KEYS)
            except ValueError as error:
                _refuse(path, number, str(error))
            if key in values:
                _refuse(path, number, f"{key} is declared twice; remove one")
            values[key], lines[key] = value, number
        if missing := [key for key in needed if key not in values]:
            how = f"does not declare {' and '.join(missing)}; write a line such as {EXAMPLE}"
            _refuse(path, max(lines.values(), default=1), how)
        return cls(path, values, lines)

    def facts(self, name: str, line: int, what: str) -> dict[str, Any]:
        """Return the fields that kernels and calls share; `line` is the line of the name."""
        if name in VARIANTS:
            _refuse(self.path, line, f"{name} is a variant of the catalog; choose another name")
        baseline = self.values.get("baseline")
        if baseline is not None and baseline not in VARIANTS:
            self.refuse("baseline", "not in the catalog; `python -m kernels list` shows it")
        same = dict.fromkeys(("idea", "origin"), "user-supplied") | {"family": "user_supplied"}
        named = {"name": name, "title": name, "after": baseline, "file": str(self.path)}
        return same | named | {"description": f"the {what} of {self.path.name}"}

    def refuse(self, key: str, message: str) -> NoReturn:
        """Raise StudyError with file, line and value of a key."""
        _refuse(self.path, self.lines[key], f"{key}={self.values[key]:.60}: {message}")

    def one_of(self, key: str, *words: str) -> str:
        """Return one of the words; the first one is the default."""
        value = self.values.get(key, words[0])
        if value not in words:
            self.refuse(key, f"use {' or '.join(words)}")
        return value

    def block_sizes(self) -> tuple[int, ...] | None:
        """Return the block sizes; None if the file declares none."""
        if "block" not in self.values:
            return None
        texts = self.values["block"].split(",")
        if not all(map(_BLOCK_SIZE.fullmatch, texts)) or len(set(texts)) < len(texts):
            self.refuse("block", "not a list of block sizes; write block=16,32")
        return tuple(map(int, texts))

    def tile(self, block: BlockSize) -> tuple[int, int, int]:
        """Return rows and columns of C, and K per iteration, of a block."""
        rows, columns, *steps = self._sizes("tile", block, (2, 3))
        return rows, columns, steps[0] if steps else 1

    def launch(self, shape: Shape, block: BlockSize) -> Launch:
        """Return the geometry of a launch."""
        rows, columns, _ = self.tile(block)
        x, *y = self._sizes("threads", block, (1, 2))
        grid = [-(-shape.n // columns), -(-shape.m // rows)]
        if self.values.get("x") == "rows":
            grid.reverse()
        shared = self.values.get("shared")
        shared_bytes = self._whole("shared", shared, block, shape) if shared else 0
        return Launch((grid[0], grid[1], shape.batch), (x, y[0] if y else 1), shared_bytes)

    def claim(self, key: str, shape: Shape, block: BlockSize) -> Fraction:
        """Return the declared number of accesses per thread."""
        return self._value(key, self.values[key], block, shape)

    def _sizes(self, key: str, block: BlockSize, lengths: tuple[int, int]) -> list[int]:
        parts = self.values[key].split("x")
        if len(parts) not in lengths:
            self.refuse(key, f"needs {lengths[0]} or {lengths[1]} sizes; write {key}=32x32")
        return [self._whole(key, part, block) for part in parts]

    def _whole(self, key: str, text: str, block: BlockSize, shape: Shape | None = None) -> int:
        value = self._value(key, text, block, shape)
        if value.denominator != 1 or not 1 <= value <= _LARGEST:
            where = f" with BLOCK={block}" if block else ""
            allowed = f"a whole number from 1 to {_LARGEST}"
            self.refuse(key, f"{text:.60} is {value!s:.60}{where}; use {allowed}")
        return int(value)

    def _value(self, key: str, text: str, block: BlockSize, shape: Shape | None) -> Fraction:
        """Return the value of a formula of whole numbers, BLOCK and, with a shape, m, n and k."""
        if len(text) > _LONGEST:
            self.refuse(key, f"a formula has more than {_LONGEST} characters; simplify it")
        names = {"BLOCK": block} if isinstance(block, int) else {}
        if shape:
            names |= {"m": shape.m, "n": shape.n, "k": shape.k}
        try:
            return _evaluated(text, *names.items())
        except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
            allowed = ", ".join(["whole numbers", *names])
            self.refuse(key, f"{text:.60} is not a formula; use {allowed} with + - * / and ()")


@lru_cache(1 << 12)  # evaluated before every launch
def _evaluated(text: str, *names: tuple[str, int]) -> Fraction:
    values = dict(names)

    def value(node: ast.expr) -> Fraction:
        match node:
            case ast.Constant(value=int(number)):
                return Fraction(number)
            case ast.Name(id=name) if name in values:
                return Fraction(values[name])
            case ast.BinOp(left, sign, right) if type(sign) in _OPERATIONS:
                return _OPERATIONS[type(sign)](value(left), value(right))
        raise ValueError

    return value(ast.parse(text, mode="eval").body)
