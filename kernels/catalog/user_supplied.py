"""Kernels from outside of the catalog: what a file declares, as a variant like any other.

A file holds one kernel with one of the catalog's two signatures, which tells its name, its type of
elements and its shapes. What the signature does not tell stands in a line of a comment:

    // try: tile=32x32 threads=32x8

`KEYS` says what may be declared. ``block=16,32`` names block sizes, for which the file is compiled
with ``-DBLOCK=``; then sizes may be written with it, as in ``tile=BLOCKxBLOCK``.

A .py file holds a function ``multiply(a, b, c, stream)`` instead, which has a library queue the
product of float32 matrices on a GPU, and is called as the file. It is parsed, and only run where it
is timed.
"""

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import NoReturn

from base.errors import StudyError
from base.paths import shown
from base.validation import check_known
from kernels.catalog.entries import VARIANTS
from kernels.catalog.source import without_comments
from kernels.catalog.variant import Launch, Variant
from kernels.products.elements import ELEMENTS
from kernels.products.shape import Shape
from kernels.theory.cost import OPERATIONS

MAX_THREADS = 1024
EXAMPLE = "// try: tile=32x32 threads=32x32"
CALL = "multiply"
_CALL_ARGUMENTS = 4
_CALL_KEYS = ("after",)
# Accesses a thread, by what the counts call them.
_CLAIMS = {f"{operation}s": operation for operation in OPERATIONS}
KEYS = {
    "tile": "rows x columns of C that a block computes; a third number: steps of k at a time",
    "threads": "of a block, along x and y",
    "block": "block sizes, which take the place of BLOCK (default: none)",
    "shared": "bytes of dynamic shared memory, called smem (default: 0)",
    "x": "what blockIdx.x runs along: columns of C, or rows (default: columns)",
    "batched": "yes: blockIdx.z is the product of a batch (default: no)",
    "tolerance": "bits: as summed one by one, or bound: within the error bound (default: bits)",
    "after": "the variant of the catalog that it is the next step of",
    **dict.fromkeys(_CLAIMS, "so many a thread, to be found by counting; with m, n, k"),
}
_LINE = re.compile(r"^\s*(?://|/?\*+|#)\s*try:(.*?)(?:\*/\s*)?$")
_KERNEL = re.compile(
    r'extern\s+"C"\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?__global__\s+'
    r"(?:__launch_bounds__\s*\([^)]*\)\s*)?void\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?"
    r"(\w+)\s*\(([^)]*)\)"
)
_POINTER = re.compile(r"(const )?(\w+) ?\* ?(?:(?:const|__restrict__) ?)*\w+")
_NUMBER = re.compile(r"(?:const )?int \w+")
_DTYPES: dict[str, tuple[str, ...]] = {
    element.c_type: (name,) for name, element in ELEMENTS.items()
}
_DTYPES |= {"int": ("int32",), "ELEMENT": tuple(ELEMENTS)}
_SIGNATURES = (
    "(const float *a, const float *b, float *c, int n) or "
    "(const ELEMENT *a, const ELEMENT *b, ELEMENT *c, int m, int n, int k)"
)
_OPERATIONS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
}


def adopt(path: Path) -> Variant:
    """Add the kernel of a file to the catalog, in this process; return it as a variant.

    Raises StudyError, whose message begins with file and line, for what is no such kernel.
    """
    variant = read(path)
    VARIANTS[variant.name] = variant
    return variant


def adopted() -> tuple[Path, ...]:
    """Return the files whose kernels were added to the catalog of this process."""
    return tuple(Path(variant.file) for variant in VARIANTS.values() if variant.file)


@contextmanager
def adopting(entries: Mapping[str, Variant]) -> Iterator[None]:
    """Have variants, by their names, in the catalog for as long as the block runs."""
    VARIANTS.update(entries)
    try:
        yield
    finally:
        for name in entries:
            del VARIANTS[name]


def variants(texts: Mapping[str, Sequence[str]]) -> dict[str, Variant]:
    """Return what sources declare, given as lines by path, by the kernels' names.

    The texts are read and nothing else. A file is called as its kernel. Raises StudyError as
    `adopt` does.
    """
    found = {}
    for name, lines in texts.items():
        path = Path(name)
        found[path.stem] = entry = _variant(path, "\n".join(lines))
        if entry.name != path.stem:
            _refuse(path, 1, f"holds {entry.name}; a file is called as its kernel")
    return found


def read(path: Path) -> Variant:
    """Return the variant that a file declares; raises StudyError as `adopt` does."""
    path = path.resolve()
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is no text in UTF-8"
        how = "name a .cu file with one kernel, or a .py file"
        raise StudyError(f"{shown(path)}: {reason}; {how}") from None
    return _variant(path, text)


def _variant(path: Path, text: str) -> Variant:
    if path.suffix == ".py":
        return _call(path, text)
    name, line, dtypes, is_square = _signature(path, text)
    _check_name(path, line, name)
    declared = _Declared(path, *_pairs(path, text, ("tile", "threads")))
    return declared.variant(name, dtypes, is_square)


def _check_name(path: Path, line: int, name: str) -> None:
    if name in VARIANTS and VARIANTS[name].file != str(path):
        _refuse(path, line, f"{name} is a variant of the catalog; call it otherwise")


def _call(path: Path, text: str) -> Variant:
    """Return what a Python file calls, of which nothing is run here."""
    wanted = f"def {CALL}(a, b, c, stream)"
    try:
        body = ast.parse(text).body
    except SyntaxError as error:
        _refuse(path, error.lineno or 1, f"{error.msg} (Python)")
    except (ValueError, RecursionError, MemoryError) as error:
        _refuse(path, 1, f"is no Python: {error}")
    found = [node for node in body if isinstance(node, ast.FunctionDef) and node.name == CALL]
    if len(found) != 1:
        how = "more than one" if found else "no"
        _refuse(path, 1, f"holds {how} function {CALL}; write one, as {wanted}")
    if len(found[0].args.posonlyargs + found[0].args.args) != _CALL_ARGUMENTS:
        _refuse(path, found[0].lineno, f"{CALL}: is not as the study calls it; write {wanted}")
    if not re.fullmatch(r"[A-Za-z]\w*", path.stem, re.ASCII):
        _refuse(path, 1, "is called as no variant can be; rename it, to letters, digits and _")
    _check_name(path, 1, path.stem)
    declared = _Declared(path, *_pairs(path, text, ()))
    for key in declared.values:
        if key not in _CALL_KEYS:
            declared._refuse(key, f"is of a kernel; a call has {', '.join(_CALL_KEYS)} alone")
    return replace(
        VARIANTS["cublas_sgemm"],
        name=path.stem,
        title=path.stem,
        idea="your own",
        origin="your own",
        description=f"the call in {path.name}",
        family="user_supplied",
        after=declared.after(),
        file=str(path),
        in_order=False,
    )


def _refuse(path: Path, line: int, message: str) -> NoReturn:
    raise StudyError(f"{shown(path)}:{line}: {message}")


def _signature(path: Path, text: str) -> tuple[str, int, tuple[str, ...], bool]:
    """Return name, line and types of elements of the kernel, and whether it takes n alone."""
    code = without_comments(text)
    found = list(_KERNEL.finditer(code))
    if len(found) != 1:
        line = code.count("\n", 0, found[1].start()) + 1 if found else 1
        how = "holds more than one kernel" if found else 'holds no kernel: extern "C" __global__'
        _refuse(path, line, f'{how}; write one, as extern "C" __global__ void NAME{_SIGNATURES}')
    line = code.count("\n", 0, found[0].start(1)) + 1
    parameters = [" ".join(each.split()) for each in found[0][2].split(",")]
    pointers = [_POINTER.fullmatch(each) for each in parameters[:3]]
    numbers = parameters[3:]
    types = {match[2] for match in pointers if match}
    fits = len(types) == 1 and all(pointers) and all(map(_NUMBER.fullmatch, numbers))
    if not fits or len(numbers) not in (1, 3) or not types <= set(_DTYPES):
        _refuse(
            path,
            line,
            f"{found[0][1]}({', '.join(parameters)}): is not as the study calls a kernel; write "
            f"{_SIGNATURES}",
        )
    return found[0][1], line, _DTYPES[types.pop()], len(numbers) == 1


def _pairs(path: Path, text: str, needed: Sequence[str]) -> tuple[dict[str, str], dict[str, int]]:
    """Return what the file declares by key, and the line of each key."""
    values: dict[str, str] = {}
    lines: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        match = _LINE.match(line)
        for pair in match[1].split() if match else []:
            key, equals, value = pair.partition("=")
            if not equals or not value:
                _refuse(
                    path, number, f"{pair}: is no key=value; write it without spaces, {EXAMPLE}"
                )
            try:
                check_known("key", key, KEYS)
            except ValueError as error:
                _refuse(path, number, str(error))
            if key in values:
                _refuse(path, number, f"{key} stands twice; remove one")
            values[key], lines[key] = value, number
    missing = [key for key in needed if key not in values]
    if missing:
        _refuse(
            path,
            max(lines.values(), default=1),
            f"does not declare {' and '.join(missing)}; write a line such as {EXAMPLE}",
        )
    return values, lines


@dataclass(frozen=True)
class _Declared:
    """The values of a file's keys as they stand there, and their lines."""

    path: Path
    values: Mapping[str, str]
    lines: Mapping[str, int]

    def variant(self, name: str, dtypes: tuple[str, ...], is_square: bool) -> Variant:
        """Return the variant, with every value checked for every block size."""
        blocks = self._block_sizes()
        tiles = {block: self._tile(block) for block in blocks or (0,)}
        threads = {block: self._threads(block) for block in blocks or (0,)}
        if max(x * y for x, y in threads.values()) > MAX_THREADS:
            self._refuse("threads", f"are more than {MAX_THREADS}, the most that a block has")
        for block in tiles:
            self._shared(Shape.square(1), block)
        x = self._one_of("x", "columns", "rows")
        batched = self._one_of("batched", "no", "yes") == "yes"
        if batched and is_square:
            self._refuse("batched", "needs the signature with m, n and k")
        after = self.after()
        claims = {key: self._claim(key) for key in _CLAIMS if key in self.values}

        @cache  # it is asked for before every launch
        def geometry(shape: Shape, block: int) -> Launch:
            rows, columns, _ = tiles[block]
            down, across = -(-shape.m // rows), -(-shape.n // columns)
            grid = (down, across) if x == "rows" else (across, down)
            return Launch((*grid, shape.batch), threads[block], self._shared(shape, block))

        return Variant(
            name,
            title=name,
            idea="your own",
            origin="your own",
            description=f"the kernel of {self.path.name}",
            family="user_supplied",
            kernel=name,
            tile=tiles.__getitem__,
            geometry=geometry,
            theory=None,
            block_sizes=blocks,
            dtypes=dtypes,
            shapes="square" if is_square else "batched" if batched else "single",
            after=after,
            has_tiles=blocks is not None,
            file=str(self.path),
            in_order=self._one_of("tolerance", "bits", "bound") == "bits",
            claims={_CLAIMS[key]: claim for key, claim in claims.items()},
        )

    def after(self) -> str | None:
        """Return the variant that it is the next step of, if it names one."""
        after = self.values.get("after")
        if after is not None and after not in VARIANTS:
            self._refuse("after", "is no variant; `python -m kernels list` shows them")
        return after

    def _refuse(self, key: str, message: str) -> NoReturn:
        _refuse(self.path, self.lines[key], f"{key}={self.values[key]}: {message}")

    def _one_of(self, key: str, *words: str) -> str:
        """Return one of the words; the first where nothing is declared."""
        value = self.values.get(key, words[0])
        if value not in words:
            self._refuse(key, f"is neither {' nor '.join(words)}")
        return value

    def _block_sizes(self) -> tuple[int, ...] | None:
        if "block" not in self.values:
            return None
        texts = self.values["block"].split(",")
        if not all(text.isdecimal() and int(text) for text in texts) or len(set(texts)) < len(
            texts
        ):
            self._refuse("block", "is no list of block sizes; write block=16,32")
        return tuple(map(int, texts))

    def _tile(self, block: int) -> tuple[int, int, int]:
        sizes = self._sizes("tile", block, (2, 3))
        return sizes[0], sizes[1], sizes[2] if len(sizes) > 2 else 1

    def _threads(self, block: int) -> tuple[int, int]:
        sizes = self._sizes("threads", block, (1, 2))
        return sizes[0], sizes[1] if len(sizes) > 1 else 1

    def _shared(self, shape: Shape, block: int) -> int:
        if "shared" not in self.values:
            return 0
        return self._whole("shared", self.values["shared"], shape, block)

    def _sizes(self, key: str, block: int, lengths: tuple[int, int]) -> list[int]:
        parts = self.values[key].split("x")
        if len(parts) not in lengths:
            self._refuse(key, f"is none of {lengths[0]} or {lengths[1]} sizes; write {key}=32x32")
        return [self._whole(key, part, None, block) for part in parts]

    def _whole(self, key: str, text: str, shape: Shape | None, block: int) -> int:
        value = self._value(key, text, shape, block)
        if value.denominator != 1 or value < 1:
            where = f" with BLOCK={block}" if block else ""
            self._refuse(key, f"{text} is {value}{where}, no whole number from 1")
        return int(value)

    def _claim(self, key: str) -> Callable[[Shape, int], Fraction]:
        def claim(shape: Shape, block: int) -> Fraction:
            return self._value(key, self.values[key], shape, block)

        claim(Shape.square(1), (self._block_sizes() or (1,))[0])  # refused now, if it is no number
        return claim

    def _value(self, key: str, text: str, shape: Shape | None, block: int) -> Fraction:
        """Return the value of a formula of whole numbers, BLOCK and, with a shape, m, n and k."""
        names = {"BLOCK": block} if block else {}
        if shape:
            names |= {"m": shape.m, "n": shape.n, "k": shape.k}

        def value(node: ast.expr) -> Fraction:
            match node:
                case ast.Constant(value=int(number)):
                    return Fraction(number)
                case ast.Name(id=name) if name in names:
                    return Fraction(names[name])
                case ast.BinOp(left, operator, right) if type(operator) in _OPERATIONS:
                    return _OPERATIONS[type(operator)](value(left), value(right))
            raise ValueError

        try:
            return value(ast.parse(text, mode="eval").body)
        except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
            allowed = ", ".join(["whole numbers", *names])
            self._refuse(key, f"{text} is no formula of {allowed} with + - * / and ()")
