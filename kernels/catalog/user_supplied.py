"""User-supplied variants: kernels from any file, and Python functions that call a library.

`gemm-study try` writes the file that is built, timed and kept in recordings. The last line of this
file is a comment with its facts as JSON, so reading a recording needs no compiler.

A Python file contains a function ``multiply(a, b, c, stream)``, in which a library enqueues the
product of float32 matrices on a GPU, or another function that `kernels.catalog.python_calls` finds.
The function runs only where it is timed, in its own process.
"""

import ast
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from base.errors import StudyError
from base.paths import shown
from kernels.catalog.catalog import Catalog
from kernels.catalog.entries import VARIANTS
from kernels.catalog.host_steps import TRANSPOSED
from kernels.catalog.python_calls import CallFacts, Name, NoCall, call_of
from kernels.catalog.variant import MAX_THREADS, Launch, UserCall, UserKernel, UserSupplied
from kernels.products.elements import FLOAT
from kernels.products.shape import Shape

CALL = "multiply"
_WANTED_CALL = f"def {CALL}(a, b, c, stream)"
_CALL_ARGUMENTS, _LONGEST_NAME = 4, 100
_MOST_BYTES = 1 << 20  # limit of a file
_HEAD = "gemm-study: "
_COMMENT = {".cu": "// ", ".py": "# "}

Size = Annotated[int, Field(ge=1, lt=2**31)]
Pointer = Literal["A", "B", "C", "ADDEND", "WORKSPACE"]


class _Facts(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class LaunchFacts(_Facts):
    """How a kernel is launched, and which products it computes.

    `numbers` and `pointers` give the meaning of each argument of the launch, in order. A number is
    a size, a factor or a leading dimension; a pointer is A, B, C, the matrix that is added
    (ADDEND), or memory that a step allocates (WORKSPACE). `layout`: whether A, B and C are
    column-major. `dtype` is None if A, B and C have different or other types; the kernel is then
    built but not timed. `tile` has the rows and columns of C per block. All edges must be multiples
    of `multiple`, or equal those of `fixed`. `reads_c`: the product is α·A·B + β·C, computed with α
    = 1, β = 0.
    """

    launch: Annotated[str, Field(max_length=2000)]
    numbers: Annotated[tuple[Name, ...], Field(max_length=64)]
    pointers: Annotated[tuple[Pointer, ...], Field(max_length=16)]
    layout: tuple[bool, bool, bool] = (False, False, False)
    dtype: Literal["float32", "float64", "int32"] | None = "float32"
    tile: tuple[Size, Size]
    threads: Annotated[int, Field(ge=1, le=MAX_THREADS)]
    shared_bytes: Annotated[int, Field(ge=0, lt=2**31)] = 0
    multiple: Size = 1
    fixed: tuple[Size, Size, Size] | None = None
    is_square: bool = False
    reads_c: bool = False

    def block_tile(self, _block_size: object = None) -> tuple[int, int, int]:
        """Return the rows and columns of C per block, and 1 for K."""
        return (*self.tile, 1)

    def geometry(self, shape: Shape, _block_size: object = None) -> Launch:
        """Return the grid and block that `tile` and `threads` imply; the launch may differ."""
        rows, columns = self.tile
        grid = (-(-shape.n // columns), -(-shape.m // rows), 1)
        return Launch(grid, (self.threads, 1), self.shared_bytes)


class Facts(_Facts):
    """A file's facts: its variant `name`, which is compared with the variant `baseline`."""

    name: Name
    baseline: str | None = None
    launch: LaunchFacts | None = None  # set for a kernel
    call: CallFacts | None = None  # set for a Python file without `CALL`

    def line(self, suffix: str) -> str:
        """Return the comment with these facts, in the syntax of a file with this suffix."""
        return f"{_COMMENT[suffix]}{_HEAD}{self.model_dump_json(exclude_defaults=True)}\n"


def catalog_of(texts: Mapping[str, Sequence[str]]) -> Catalog:
    """Return a catalog with the variants in user-supplied files, given as lines by path.

    The texts are parsed, never run. A file must be named after its variant. Raise StudyError.
    """
    entries = [variant(Path(name), "\n".join(lines)) for name, lines in texts.items()]
    for entry in entries:
        if entry.name != (path := Path(entry.file)).stem:
            refuse(path, 1, f"contains {entry.name}; name the file after its kernel")
    return VARIANTS.joined(*entries)


def read(path: Path) -> UserSupplied:
    """Return the variant in a file that `gemm-study try` wrote; raise StudyError."""
    return variant(path.absolute(), source_text(path))


def variant(path: Path, text: str) -> UserSupplied:
    """Return the variant that the text of a file describes; raise StudyError naming the file."""
    last = text.rstrip().rpartition("\n")[2]
    _, is_marked, json = last.partition(_COMMENT[path.suffix] + _HEAD)
    line = text.rstrip().count("\n") + 1
    if not is_marked and path.suffix != ".py":
        refuse(path, line, "does not end with the facts of its launch; use gemm-study try")
    try:
        facts = Facts.model_validate_json(json) if is_marked else Facts(name=name_of(path))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        refuse(path, line, f"{place or 'facts'}: {first['msg']}")
    check_name(path, facts.name)
    if facts.launch is None and facts.call is None:
        facts = facts.model_copy(update={"call": called(path, text)[0]})
    if facts.baseline is not None:
        VARIANTS.variant(facts.baseline)
    fields: dict[str, Any] = {
        "name": facts.name,
        "title": facts.name,
        "after": facts.baseline,
        "file": str(path),
        "idea": "user-supplied",
        "origin": "user-supplied",
        "family": "user_supplied",
        "description": f"user-supplied, from {path.name}",
    }
    if facts.launch is None:
        digits = facts.call.digits if facts.call else FLOAT.digits
        is_short = int(digits < FLOAT.digits)
        return UserCall(
            shapes="single", call=facts.call, digits=digits, tensor_products=is_short, **fields
        )
    launch = facts.launch
    needs_transposes = launch.layout not in ((False,) * 3, (True,) * 3)
    return UserKernel(
        kernel=facts.name,
        tile=launch.block_tile,
        geometry=launch.geometry,
        dtypes=(launch.dtype or "float32",),
        shapes="square" if launch.is_square or needs_transposes else "single",
        host_step=TRANSPOSED[launch.layout[:2]] if needs_transposes else None,
        in_order=False,
        facts=launch,
        **fields,
    )


def check_name(path: Path, name: str) -> None:
    """Raise StudyError if a variant of the catalog already has this name."""
    if name in VARIANTS:
        refuse(path, 1, f"{name} is a variant of the catalog; choose another name")


def source_text(path: Path) -> str:
    """Return the text of a file; raise StudyError if it is not a text of at most 1 MB.

    Comments of CUDA code may have any encoding.
    """
    if path.exists() and not path.is_file():
        raise StudyError(f"{shown(path)}: is not a regular file; name a .cu or a .py file")
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise StudyError(f"{shown(path)}: is larger than 1 MB; name a file with one kernel")
        errors = "strict" if path.suffix == ".py" else "replace"
        return path.read_text(encoding="utf-8-sig", errors=errors)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not valid UTF-8"
        how = "name a .cu file with one kernel, or a .py file"
        raise StudyError(f"{shown(path)}: {reason}; {how}") from None


def called(
    path: Path, text: str, function: str | None = None
) -> tuple[CallFacts | None, list[str]]:
    """Return how the product in a Python file is called, and the assumptions made.

    None means that the file contains the function `CALL`. `function` is the name that the user
    gave. The file is not run. Raise StudyError naming the file.
    """
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        refuse(path, error.lineno or 1, f"{error.msg} (Python)")
    except (ValueError, RecursionError, MemoryError) as error:
        refuse(path, 1, f"is not valid Python: {error}")
    calls = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == CALL]
    takes = [len(node.args.posonlyargs + node.args.args) for node in calls]
    if function in (None, CALL) and takes == [_CALL_ARGUMENTS]:
        return None, [f"{_WANTED_CALL.removeprefix('def ')}, float32"]
    try:
        return call_of(tree, function)
    except NoCall as error:
        refuse(path, 1, f"{error}; or write one function {_WANTED_CALL.removeprefix('def ')}")


def name_of(path: Path) -> str:
    """Return the variant's name for a Python file."""
    name = re.sub(r"\W", "_", path.stem, flags=re.ASCII)[:_LONGEST_NAME]
    return name if name[:1].isalpha() else f"call_{name}"[:_LONGEST_NAME]


def refuse(path: Path, line: int, message: str) -> NoReturn:
    """Raise StudyError whose message begins with file and line."""
    raise StudyError(f"{shown(path)}:{line}: {message}")
