"""User-supplied kernels: the declarations in a file, as a variant.

A file contains one kernel with one of the catalog's two signatures, which defines its name, element
type and shapes. A comment line declares the rest:

    // try: tile=32x32 threads=32x8

`KEYS` lists the declarations. ``block=16,32`` lists block sizes, for each of which the file is
compiled with ``-DBLOCK=``. Then sizes may contain it, as in ``tile=BLOCKxBLOCK``.

A .py file contains a function ``multiply(a, b, c, stream)`` instead, with the name of the file as
its variant. The function has a library enqueue the product of float32 matrices on a GPU. The file
is parsed; it runs only where it is timed.
"""

import ast
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import NoReturn

from base.errors import StudyError
from base.paths import FOLDERS, shown
from base.validation import check_known
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
# What a call cannot use: the clock, this program's data, other processes and threads, native code.
_WITHHELD = {
    *("cffi", "cppyy", "cpp_extension", "distutils", "f2py", "load_inline", "load_library"),
    *("_ctypes", "_thread", "asyncio", "atexit", "builtins", "concurrent", "ctypes", "gc"),
    *("importlib", "inspect", "io", "mmap", "multiprocessing", "operator", "os", "pathlib"),
    *("pkgutil", "pynvml", "runpy", "shutil", "signal", "socket", "subprocess", "sys"),
    *("threading", "time", "timeit", "traceback", "weakref", *FOLDERS),
}
# Further attributes: frames of callers, and files.
_WITHHELD_NAMES = {
    *("ag_frame", "cr_frame", "gi_frame", "tb_frame", "tb_next", "f_back", "f_builtins"),
    *("f_globals", "f_locals", "ctypeslib", "dump", "from_file", "fromfile", "genfromtxt"),
    *("load", "loadtxt", "memmap", "open_memmap", "save", "savetxt", "savez", "tofile"),
    *("DataSource", "dlopen", "fromregex"),
    *("__import__", "breakpoint", "compile", "delattr", "eval", "exec", "getattr", "globals"),
    *("locals", "open", "setattr", "vars"),
}
# Former names of keys, which sources in recordings still have.
_FORMER = {"after": "baseline"}
# Accesses per thread, by operation.
_CLAIMS = {f"{operation}s": operation for operation in OPERATIONS}
KEYS = {
    "tile": "rows x columns of C per block; a third number: K per iteration",
    "threads": "threads per block, along x and y",
    "block": "block sizes, which replace BLOCK (default: none)",
    "shared": "bytes of dynamic shared memory, called smem (default: 0)",
    "x": "direction of blockIdx.x: columns of C, or rows (default: columns)",
    "batched": "yes: blockIdx.z is the product of a batch (default: no)",
    "tolerance": "bits: sums in the order of k; bound: within the error bound (default: bits)",
    "baseline": "the variant of the catalog to compare with",
    **dict.fromkeys(_CLAIMS, "expected number per thread; a formula of m, n, k"),
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
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
}


def adopt(path: Path) -> UserSupplied:
    """Add the kernel in a file to the catalog of this process; return its variant.

    Raise StudyError, beginning with file and line, if the file declares no valid kernel.
    """
    variant = read(path)
    VARIANTS[variant.name] = variant
    return variant


def adopted() -> tuple[Path, ...]:
    """Return the files whose kernels were added to the catalog of this process."""
    return tuple(Path(v.file) for v in VARIANTS.values() if isinstance(v, UserSupplied))


@contextmanager
def adopting(entries: Mapping[str, UserSupplied]) -> Iterator[None]:
    """Add variants, by name, to the catalog while the block runs."""
    VARIANTS.update(entries)
    try:
        yield
    finally:
        for name in entries:
            del VARIANTS[name]


def variants(texts: Mapping[str, Sequence[str]]) -> dict[str, UserSupplied]:
    """Return the variants that sources declare, by name; sources are lines, by path.

    The texts are parsed, never run. A file must have the name of its kernel. Raise StudyError as
    `adopt` does.
    """
    found: dict[str, UserSupplied] = {}
    for name, lines in texts.items():
        path = Path(name)
        found[path.stem] = entry = _variant(path, "\n".join(lines))
        if entry.name != path.stem:
            _refuse(path, 1, f"contains {entry.name}; name the file after its kernel")
    return found


def read(path: Path) -> UserSupplied:
    """Return the variant that a file declares; raise StudyError as `adopt` does.

    Print a hint to stderr for a former key.
    """
    path = path.absolute()
    if path.exists() and not path.is_file():
        raise StudyError(f"{shown(path)}: is not a regular file; name a .cu or a .py file")
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise StudyError(f"{shown(path)}: is larger than 1 MB; name a file with one kernel")
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not valid UTF-8"
        how = "name a .cu file with one kernel, or a .py file"
        raise StudyError(f"{shown(path)}: {reason}; {how}") from None
    for number, key, _ in _declarations(text):
        if key in _FORMER:
            hint = f"{shown(path)}:{number}: {key}= is now {_FORMER[key]}="
            print(hint, file=sys.stderr)
    return _variant(path, text)


def _variant(path: Path, text: str) -> UserSupplied:
    if path.suffix == ".py":
        return _call(path, text)
    name, line, dtypes, is_square = _signature(path, text)
    _check_name(path, line, name)
    declared = _Declared(path, *_pairs(path, text, ("tile", "threads")))
    return declared.variant(name, dtypes, is_square)


def _check_name(path: Path, line: int, name: str) -> None:
    if name in VARIANTS and VARIANTS[name].source != str(path):
        _refuse(path, line, f"{name} is a variant of the catalog; choose another name")


def _call(path: Path, text: str) -> UserCall:
    """Return the call in a Python file, without running it."""
    wanted = f"def {CALL}(a, b, c, stream)"
    try:
        body = ast.parse(text).body
    except SyntaxError as error:
        _refuse(path, error.lineno or 1, f"{error.msg} (Python)")
    except (ValueError, RecursionError, MemoryError) as error:
        _refuse(path, 1, f"is not valid Python: {error}")
    found = [node for node in body if isinstance(node, ast.FunctionDef) and node.name == CALL]
    if len(found) != 1:
        how = "more than one" if found else "no"
        _refuse(path, 1, f"contains {how} function {CALL}; write exactly one {wanted}")
    if len(found[0].args.posonlyargs + found[0].args.args) != _CALL_ARGUMENTS:
        _refuse(path, found[0].lineno, f"{CALL}: wrong parameters; write {wanted}")
    _check_reach(path, ast.parse(text))
    if not re.fullmatch(r"[A-Za-z]\w*", path.stem, re.ASCII):
        _refuse(path, 1, "the file name is not a valid variant name; use letters, digits and _")
    _check_name(path, 1, path.stem)
    declared = _Declared(path, *_pairs(path, text, ()))
    for key in declared.values:
        if key not in _CALL_KEYS:
            declared.refuse(key, f"is a key of kernels; for a call, use {', '.join(_CALL_KEYS)}")
    return UserCall(
        name=path.stem,
        title=path.stem,
        idea="user-supplied",
        origin="user-supplied",
        description=f"the call in {path.name}",
        family="user_supplied",
        shapes="single",
        after=declared.baseline(),
        file=str(path),
    )


def _check_reach(path: Path, tree: ast.AST) -> None:
    """Refuse a file that names modules, functions or attributes outside the reach of a call."""
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = ["." * node.level + (node.module or ""), *(each.name for each in node.names)]
        elif isinstance(node, ast.Attribute):
            names = [node.attr]
        elif isinstance(node, ast.Name):
            names = [node.id] if node.id in _WITHHELD_NAMES else []
        elif isinstance(node, ast.Assign) and not isinstance(node.value, ast.Constant):
            own = [each for each in node.targets if isinstance(each, ast.Attribute)]
            if own:
                how = "a call may set attributes only to constants; use a variable"
                _refuse(path, node.lineno, f"{ast.unparse(own[0])}: {how}")
        for name in names:
            first = name.split(".")[0]
            if first in _WITHHELD or not first or name.startswith("__") or name in _WITHHELD_NAMES:
                how = "a call only enqueues a product; remove it"
                _refuse(path, getattr(node, "lineno", 1), f"{name} is not available: {how}")


def _refuse(path: Path, line: int, message: str) -> NoReturn:
    raise StudyError(f"{shown(path)}:{line}: {message}")


def _signature(path: Path, text: str) -> tuple[str, int, tuple[str, ...], bool]:
    """Return name, line and element types of the kernel, and whether it takes n only."""
    code = without_comments(text)
    found = list(_KERNEL.finditer(code))
    if len(found) != 1:
        line = code.count("\n", 0, found[1].start()) + 1 if found else 1
        how = "contains more than one kernel" if found else 'no kernel: extern "C" __global__'
        _refuse(path, line, f'{how}; write one, as extern "C" __global__ void NAME{_SIGNATURES}')
    line = code.count("\n", 0, found[0].start(1)) + 1
    parameters = [" ".join(each.split()) for each in found[0][2].split(",")]
    pointers = [_POINTER.fullmatch(each) for each in parameters[:3]]
    numbers = parameters[3:]
    types = {match[2] for match in pointers if match}
    fits = len(types) == 1 and all(pointers) and all(map(_NUMBER.fullmatch, numbers))
    if not fits or len(numbers) not in (1, 3) or not types <= set(_DTYPES):
        given = f"{found[0][1]}({', '.join(parameters)})"
        _refuse(path, line, f"{given}: unsupported signature; write {_SIGNATURES}")
    return found[0][1], line, _DTYPES[types.pop()], len(numbers) == 1


def _declarations(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, key and value of each declaration; the value is empty if there is none."""
    for number, line in enumerate(text.splitlines(), start=1):
        match = _LINE.match(line)
        for pair in match[1].split() if match else []:
            key, _, value = pair.partition("=")
            yield number, key, value


def _pairs(path: Path, text: str, needed: Sequence[str]) -> tuple[dict[str, str], dict[str, int]]:
    """Return the declared values by key, and the line of each key."""
    values: dict[str, str] = {}
    lines: dict[str, int] = {}
    for number, given, value in _declarations(text):
        if not value:
            _refuse(path, number, f"{given:.60}: not key=value; write it without spaces, {EXAMPLE}")
        key = _FORMER.get(given, given)
        try:
            check_known("key", key, KEYS)
        except ValueError as error:
            _refuse(path, number, str(error))
        if key in values:
            _refuse(path, number, f"{key} is declared twice; remove one")
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
    """The declared values of a file as text, and their lines."""

    path: Path
    values: Mapping[str, str]
    lines: Mapping[str, int]

    def variant(self, name: str, dtypes: tuple[str, ...], is_square: bool) -> UserKernel:
        """Return the variant, with every value checked for every block size."""
        blocks = self._block_sizes()
        tiles = {block: self._tile(block) for block in blocks or (None,)}
        threads = {block: self._threads(block) for block in blocks or (None,)}
        if max(x * y for x, y in threads.values()) > MAX_THREADS:
            self.refuse("threads", f"more than {MAX_THREADS} threads per block, the maximum")
        for block in tiles:
            self._shared(Shape.square(1), block)
        x = self._one_of("x", "columns", "rows")
        batched = self._one_of("batched", "no", "yes") == "yes"
        if batched and is_square:
            self.refuse("batched", "needs the signature with m, n and k")
        baseline = self.baseline()
        claims = {key: self._claim(key) for key in _CLAIMS if key in self.values}

        @cache  # called before every launch
        def geometry(shape: Shape, block: int | None) -> Launch:
            rows, columns, _ = tiles[block]
            down, across = -(-shape.m // rows), -(-shape.n // columns)
            grid = (down, across) if x == "rows" else (across, down)
            return Launch((*grid, shape.batch), threads[block], self._shared(shape, block))

        return UserKernel(
            name=name,
            title=name,
            idea="user-supplied",
            origin="user-supplied",
            description=f"the kernel of {self.path.name}",
            family="user_supplied",
            kernel=name,
            tile=tiles.__getitem__,
            geometry=geometry,
            block_sizes=blocks,
            fixed_blocks=blocks is not None,
            dtypes=dtypes,
            shapes="square" if is_square else "batched" if batched else "single",
            after=baseline,
            file=str(self.path),
            in_order=self._one_of("tolerance", "bits", "bound") == "bits",
            claims={_CLAIMS[key]: claim for key, claim in claims.items()},
        )

    def baseline(self) -> str | None:
        """Return the variant of the catalog to compare with, if one is declared."""
        name = self.values.get("baseline")
        if name is not None and name not in VARIANTS:
            self.refuse("baseline", "not in the catalog; `python -m kernels list` shows it")
        return name

    def refuse(self, key: str, message: str) -> NoReturn:
        """Raise StudyError with file, line and value of a key."""
        _refuse(self.path, self.lines[key], f"{key}={self.values[key]:.60}: {message}")

    def _one_of(self, key: str, *words: str) -> str:
        """Return one of the words; the first one is the default."""
        value = self.values.get(key, words[0])
        if value not in words:
            self.refuse(key, f"use {' or '.join(words)}")
        return value

    def _block_sizes(self) -> tuple[int, ...] | None:
        if "block" not in self.values:
            return None
        texts = self.values["block"].split(",")
        if not all(map(_BLOCK_SIZE.fullmatch, texts)) or len(set(texts)) < len(texts):
            self.refuse("block", "not a list of block sizes; write block=16,32")
        return tuple(map(int, texts))

    def _tile(self, block: int | None) -> tuple[int, int, int]:
        sizes = self._sizes("tile", block, (2, 3))
        return sizes[0], sizes[1], sizes[2] if len(sizes) > 2 else 1

    def _threads(self, block: int | None) -> tuple[int, int]:
        sizes = self._sizes("threads", block, (1, 2))
        return sizes[0], sizes[1] if len(sizes) > 1 else 1

    def _shared(self, shape: Shape, block: int | None) -> int:
        if "shared" not in self.values:
            return 0
        return self._whole("shared", self.values["shared"], shape, block)

    def _sizes(self, key: str, block: int | None, lengths: tuple[int, int]) -> list[int]:
        parts = self.values[key].split("x")
        if len(parts) not in lengths:
            self.refuse(key, f"needs {lengths[0]} or {lengths[1]} sizes; write {key}=32x32")
        return [self._whole(key, part, None, block) for part in parts]

    def _whole(self, key: str, text: str, shape: Shape | None, block: int | None) -> int:
        value = self._value(key, text, shape, block)
        if value.denominator != 1 or not 1 <= value <= _LARGEST:
            where = f" with BLOCK={block}" if block else ""
            allowed = f"a whole number from 1 to {_LARGEST}"
            self.refuse(key, f"{text:.60} is {value!s:.60}{where}; use {allowed}")
        return int(value)

    def _claim(self, key: str) -> Callable[[Shape, BlockSize], Fraction]:
        def claim(shape: Shape, block: BlockSize) -> Fraction:
            return self._value(key, self.values[key], shape, block)

        claim(Shape.square(1), (self._block_sizes() or (None,))[0])  # checks the formula now
        return claim

    def _value(self, key: str, text: str, shape: Shape | None, block: BlockSize) -> Fraction:
        """Return the value of a formula of whole numbers, BLOCK and, with a shape, m, n and k."""
        if len(text) > _LONGEST:
            self.refuse(key, f"a formula has more than {_LONGEST} characters; simplify it")
        names = {"BLOCK": block} if isinstance(block, int) else {}
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
            self.refuse(key, f"{text:.60} is not a formula; use {allowed} with + - * / and ()")
