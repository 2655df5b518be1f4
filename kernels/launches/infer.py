"""Inferring the launch of a kernel whose file contains none, from its parameters and indices."""

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from kernels.catalog.variant import MAX_THREADS
from kernels.launches.constants import macros
from kernels.launches.expression import Launch, words
from kernels.launches.pieces import Piece, closing, named, pieces, split_list
from kernels.launches.roles import ELEMENT, SIZES, is_number_name
from kernels.launches.structs import arguments_of

# But not the name of a type to which the edge is converted.
_INDEX = r"blockIdx\s*\.\s*{axis}\s*\*\s*(?P<edge>[\w.:]+(?![\w.:]|\s*\()|\([^()]*\))"
_BOUNDS = re.compile(r"__launch_bounds__\s*\(")
_DEFAULT_EDGE, _DEFAULTS = "16", {"bool": "false"}
_TYPES = ("typename", "class")
_DYNAMIC_SHARED = ", 48 * 1024"  # the most that a block may use without requesting more
# Template arguments of public kernels by name; the values of a set fit each other.
_BLOCK_EDGE = r"(?:block|tile)?_?(?:size|dim|width|edge)?_?[xy]?|t[sw]|bs|block_?size|tile_?\w*"
_TILED = {r"b[mn]": "128", "bk": "16", r"t[mn]": "8", _BLOCK_EDGE: "32"}
_OF_WARPS = {"tn": "4", r"w[mn]": "64", r"w\w*iter": "4", r"num_?threads|threads\w*": "128"}
_SETS = (
    {r"b[mn]": "64", "bk": "8", r"t[mn]": "8", _BLOCK_EDGE: "16"},
    _TILED | {"bk": "8"},
    _TILED,
    {r"b[mn]": "64", "bk": "16", r"t[mn]": "4", _BLOCK_EDGE: "32"},
    _OF_WARPS | _TILED,
)
_SPELLINGS = (
    (r"(?:block|tile)_?(?:tile_?)?(?:size_?)?(m|n|k)", r"b\1"),
    (r"block_?tile_?size_?x", "bn"),
    (r"block_?tile_?size_?y", "bm"),
    (r"thread_?(?:tile_?)?size_?[mny]", "tm"),
    (r"thread_?(?:tile_?)?size_?x", "tn"),
)


@dataclass(frozen=True)
class Guess:
    """A guessed launch whose tile edges are still unknown; the launch of `probe` reveals them.

    The edges are the factors of the block indices in the kernel, along x and y; the grid of `probe`
    has these sizes, and its block has launch bounds, if there are any.
    """

    probe: Launch
    uses_y: tuple[bool, bool]  # whether the kernel uses blockIdx.y, and threadIdx.y
    shared: str  # bytes of dynamic shared memory, after a comma; else ""

    def launch(self, geometry: "Geometry", numbers: Mapping[str, str]) -> Launch:
        """Return the launch as a person would write it; `numbers` says what each number means.

        If the kernel and the grid name sizes M or N differently, the names are those of the grid.
        """
        where = f"{_dim3(geometry.texts)}, {_dim3([*map(str, geometry.block)])}{self.shared}"
        arguments = split_list(self.probe.arguments)
        if any(name in SIZES and numbers[name] != name for name in numbers):
            sizes = {name: size for name, size in numbers.items() if size in SIZES}
            arguments = [sizes.get(each, each) for each in arguments]
        return replace(self.probe, configuration=where, arguments=", ".join(arguments))


@dataclass(frozen=True)
class Geometry:
    """A launch geometry: the sizes of the grid, and the threads of a block.

    A size of the grid is an edge divided by a divisor, rounded up. The edges are M, N and M * N.
    """

    grid: tuple[tuple[str, int], ...]
    block: tuple[int, ...]

    def blocks(self, m: int, n: int) -> tuple[int, ...]:
        """Return the sizes of the grid for these M and N."""
        edges = {"M": m, "N": n, "M * N": m * n}
        return tuple(-(-edges[edge] // divisor) for edge, divisor in self.grid)

    @property
    def texts(self) -> list[str]:
        """The sizes of the grid as C++ expressions."""
        return [
            edge if divisor == 1 else f"CEIL_DIV({edge}, {divisor})" for edge, divisor in self.grid
        ]


def _dim3(sizes: Sequence[str]) -> str:
    return sizes[0] if len(sizes) == 1 else f"dim3({', '.join(sizes)})"


def _has_dynamic_shared(code: str) -> bool:
    """Return whether code declares shared memory whose size a launch gives."""
    return re.search(r"\bextern\b[^;{]*\b__shared__\b", code) is not None


def is_edge(name: str) -> bool:
    """Return whether the name of a number suggests the edge of a block rather than a size."""
    return bool(re.fullmatch(_BLOCK_EDGE, name.lower())) and not is_number_name(name)


def _number_parameters(kernel: Piece) -> list[str]:
    """Return the names of a kernel's parameters that are numbers."""
    return [named(each) for each in kernel.parameters if not re.search(r"[*\[&]", each)]


def unknown(kernel: Piece, code: str) -> str:
    """Return what about the launch of a kernel is not known, as text."""
    strange = [each for each in _number_parameters(kernel) if not is_number_name(each)]
    if strange:
        return f"the meaning of its parameter {strange[0]} is unknown"
    template = kernel.template
    constants = [given for kind, given, default in template if kind not in _TYPES and not default]
    if constants:
        return f"the numbers of its template ({', '.join(constants)}) are unknown"
    if _has_dynamic_shared(code):
        return "the size of its dynamic shared memory is unknown"
    return "none that was tried gives a product"


def guesses(name: str, kernel: Piece, text: str) -> Iterator[Guess]:
    """Yield guessed launches of a kernel, the likeliest first; `text` is the code that it needs."""
    arguments, structures = arguments_of(text, kernel)
    code = _with_indices(" ".join(p.code for p in pieces(text) if p.is_for_the_device))
    spaceless = code.replace(" ", "")
    uses_y = ("blockIdx.y" in spaceless, "threadIdx.y" in spaceless)
    template = kernel.template
    shared = _DYNAMIC_SHARED if _has_dynamic_shared(code) else ""
    numbers, defined = _number_parameters(kernel), macros(text, text)
    seen = set()
    constant = [each for each in template if each[0] not in _TYPES]
    constant += [("int", number, "") for number in numbers if is_edge(number)]
    constant += [("bool", named(each), "") for each in kernel.parameters if "bool" in words(each)]
    unset = [name for kind, name, default in constant if not default and kind != "bool"]
    for values in sorted(_SETS, key=lambda values: sum(not _value(n, values) for n in unset)):
        constants = {
            (kind, name): default or _value(name, values) or _DEFAULTS.get(kind, _DEFAULT_EDGE)
            for kind, name, default in constant
        }
        declared = [f"constexpr {kind} {name} = {v};" for (kind, name), v in constants.items()]
        statements = (*declared, *structures)
        if statements in seen:
            continue
        seen.add(statements)
        values_of = ", ".join(ELEMENT if kind in _TYPES else each for kind, each, _ in template)
        called = f"{name}<{values_of}>" if template else name
        constant_names = {name for _, name in constants} | defined
        names = {_short(name): name for kind, name in constants if kind != "bool"}
        edge = next(iter(names.values()), "0")
        across = names.get("bn") or _edge(code, "x", constant_names) or edge
        down = names.get("bm") or _edge(code, "y", constant_names) or edge
        configuration = f"dim3({across}, {down}), dim3({_launch_bounds(kernel) or 0}){shared}"
        probe = Launch(called, configuration, arguments, statements)
        yield Guess(probe, uses_y, shared)


def _with_indices(code: str) -> str:
    """Return code in which block indices replace the variables that contain them."""
    for name, axis in re.findall(r"\b(\w+)\s*=\s*blockIdx\s*\.\s*([xyz])\s*[;,]", code):
        code = re.sub(rf"\b{name}\b(?!\s*=)", f"blockIdx.{axis}", code)
    return re.sub(r"(blockIdx\.[xyz])\s*<<\s*(\d+)", r"\1 * (1 << \2)", code)


def geometries(edges: tuple[int, int], bound: int, uses_y: tuple[bool, bool]) -> Iterator[Geometry]:
    """Yield geometries that fit the factors of a kernel's block indices (0: unknown)."""
    if edges == (0, 0) and all(uses_y):  # the kernel gets its edges from blockDim
        likely = [list(geometries((edge, edge), bound, uses_y)) for edge in (16, 32, 8)]
        yield from (geometry for each in likely for geometry in each[:2])
        yield from (geometry for each in likely for geometry in each[2:])
        return
    x, y = edges[0] or edges[1] or 16, edges[1] or edges[0] or 16
    x_only = edges[0] or 256
    grids: list[tuple[tuple[str, int], ...]] = [(("N", x), ("M", y)), (("M", x), ("N", y))]
    if not any(edges) and uses_y == (False, True):  # one block per tile of C
        for edge in (16, 32, 8):
            yield Geometry((("M * N", edge * edge),), (edge, edge))
    if not uses_y[0]:
        grids = [(("M * N", x_only),), (("M", x_only),), (("N", x_only),), (("M", 1),)]
    elif edges[0] and not edges[1] and not uses_y[1]:
        grids.insert(0, (("N", x_only), ("M", 1)))
    elif edges[1] and not edges[0]:
        grids.insert(0, (("N", 1), ("M", y)))
    blocks = (
        _blocks(x, y, bound, uses_y[1]) if uses_y[0] else [(bound or x_only,), (256,), (x * y,)]
    )
    for block, grid in dict.fromkeys(itertools.product(blocks, grids)):
        if 1 <= math.prod(block) <= MAX_THREADS:
            yield Geometry(grid, block)


def _blocks(x: int, y: int, bound: int, in_two: bool) -> Iterator[tuple[int, ...]]:
    """Yield threads per block, the likeliest first."""
    if in_two:
        shares = [(1, 1), (2, 2), (4, 4), (8, 8), (4, 1), (1, 4), (1, 2), (2, 1), (8, 1), (1, 8)]
        shares += [(4, 8), (8, 4), (2, 4), (4, 2)]
        blocks = [(x // a, y // b) for a, b in shares]
        blocks += [(16, 16), (32, 8), (8, 8), (32, 32), (32, y)]
        yield from (each for each in blocks if not bound or math.prod(each) <= bound)
        return
    if bound:
        yield (bound,)
    yield from ((x * y // share,) for share in (1, 8, 64, 16, 4, 2, 32))
    yield from ((threads,) for threads in (x, y, 256, 128, 64))


def _short(name: str) -> str:
    """Return the usual short name of a template parameter: bm for BLOCK_SIZE_M."""
    name = name.lower()
    for pattern, short in _SPELLINGS:
        if re.fullmatch(pattern, name):
            return re.sub(pattern, short, name)
    return name


def _value(name: str, values: Mapping[str, str]) -> str | None:
    """Return the value for a template parameter among `values` by name; None if there is none."""
    short = _short(name)
    return next((v for pattern, v in values.items() if re.fullmatch(pattern, short)), None)


def _edge(code: str, axis: str, named: AbstractSet[str]) -> str | None:
    """Return the factor of the block index along an axis in a kernel, in terms of `named`."""
    before = rf"(?P<edge>[\w.:]+)\s*\*\s*blockIdx\s*\.\s*{axis}\b"
    for pattern in (_INDEX.format(axis=axis), before):
        for product in re.finditer(pattern, code):
            edge = product["edge"]
            constant = rf"\bconst(?:expr)?\b[\w\s]*\s{re.escape(edge)}\s*=\s*([^;,]+)[;,]"
            if local := re.search(constant, code):
                edge = f"({local[1].strip()})"
            if "::" in edge or words(edge) <= named:
                return edge
    return None


def _launch_bounds(kernel: Piece) -> str | None:
    header = kernel.head
    attribute = _BOUNDS.search(header)
    place = attribute.end() if attribute else 0
    return split_list(header[place : closing(header, place - 1) - 1])[0] if attribute else None
