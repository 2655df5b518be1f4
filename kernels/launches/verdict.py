"""The verdict on a kernel: correct, correct for multiples of a number, or wrong."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count, product
from math import ceil, isqrt, lcm, prod
from pathlib import Path

import numpy as np

from base.errors import StudyError
from base.paths import shown
from kernels.host_execution.binding import Configured
from kernels.host_execution.compiler import CompilerError, NotSupported
from kernels.launches.device import for_the_device
from kernels.launches.expression import (
    MALLOC,
    Launch,
    main_of,
    named,
    of_file,
    parameters,
    written,
)
from kernels.launches.infer import Geometry, Guess, geometries, guesses
from kernels.launches.largest import LARGE_EDGE, LastBlocks
from kernels.launches.library import Library, Source, has_beta
from kernels.launches.pieces import kernels_of
from kernels.launches.reading import LARGE, LAYOUTS, Factors, Reading, readings
from kernels.launches.roles import MATRICES
from kernels.launches.sequences import Steps, sequences
from kernels.launches.structs import matrix_count
from kernels.launches.trials import Outcome, Trial, kind_of
from kernels.products.shape import Shape

_LARGE = 1 << 11  # an edge at which every grid has many blocks, and 32 threads per element fit
_MULTIPLES = (2, 4, 8, 16, 32, 64, 128, 256)
_LARGEST_MULTIPLE = 512
_LARGEST_TILE = 128
# A fault may first show in a later iteration over K: pipelines have several stages.
_DEEP, _DEEPEST, _WIDE = 192, 1152, 128
_SMALL_EDGE = 330  # of large squares
_MOST_THREADS = 1 << 22  # of a launch on the host
_ANY = 32  # edge of a block's tile where the grid does not say it
_FACTORS: Factors = (-0.75, 1.5)
_FLOAT_DIGITS = 24
_PADDING = 16  # elements: rows stay aligned for vectors
# Of elements, in a template's arguments.
_OTHER_TYPES = re.compile(r"\b(?:\w*half|\w*bfloat16|double|u?int\d*(?:_t)?|char|complex)\b")


@dataclass(frozen=True)
class Judged:
    """The verdict on one kernel, and how it was launched.

    `multiple` is 1 for a correct kernel, larger for one that is correct for multiples of it, and 0
    for a wrong one. `fault` is the first fault: at other sizes, or of a wrong kernel.
    """

    source: Source
    reading: Reading
    tile: tuple[int, int]
    multiple: int
    shapes: tuple[Shape, ...]
    fault: str | None
    is_fixed: bool = False  # its file fixes the sizes
    is_checked: bool = True
    has_fixed_grid: bool = False  # whatever the sizes of the matrices
    is_guessed: bool = False  # its launch

    @property
    def layout(self) -> str:
        """Which product is computed instead of that of row-major matrices."""
        return LAYOUTS[self.reading.layout]


def kernels_to_judge(path: Path, text: str, option: str | None, kernel: str | None) -> list[str]:
    """Return the names of the kernels to judge; raise StudyError if there is none."""
    present = kernels_of(text)
    if not present:
        raise StudyError(
            f"{shown(path)}: no kernel found: no function is __global__; name a file with one"
        )
    if kernel and kernel not in present:
        names = ", ".join(present)
        raise StudyError(f"{shown(path)}: --kernel {kernel}: not in the file; it contains {names}")
    declared = {launch.name for launch in of_file(text, option)} if option else set()
    if option and not declared & set(present):
        names = ", ".join(present)
        raise StudyError(
            f"{shown(path)}: --launch {option:.60}: launches no kernel of the file, which contains "
            f"{names}"
        )
    if kernel:
        return [kernel]
    count_of = {name: matrix_count(text, name, piece) for name, piece in present.items()}
    products = [
        name
        for name, count in count_of.items()
        if count == len(MATRICES) or (count == len(MATRICES) + 1 and has_beta(present[name], name))
    ]
    several = sequences(text, option)
    mains = {main_of(steps).name for steps in several}
    parts = {step.name for steps in several for step in steps} - mains
    products = [name for name in present if name in {*products, *mains} - parts]
    launched = [launch.name for launch in of_file(text, option) if launch.name in products]
    if not products:
        counts = ", ".join(f"{name} takes {count}" for name, count in count_of.items())
        raise StudyError(
            f"{shown(path)}: no kernel takes three matrices: {counts}; name a file with C = A·B"
        )
    return list(dict.fromkeys(launched)) or products


def _several_or_single(launched: Sequence[Steps]) -> Sequence[Steps]:
    """Return the products of several steps; without steps, those of one launch."""
    return [steps for steps in launched if len(steps) > 1] or launched


def _launched(text: str, option: str | None, name: str) -> list[Steps]:
    """Return the products that a kernel multiplies for: of several steps, then of one launch.

    A launch that is a step of a declared product is no product by itself.
    """
    several = [steps for steps in sequences(text, option) if main_of(steps).name == name]
    single = [(launch,) for launch in of_file(text, option) if launch.name == name]
    return several if several and not several[0][-1].line else [*several, *single]


def judge(path: Path, text: str, name: str, option: str | None = None) -> Judged:
    """Judge a kernel of a file with this text on the host.

    A launch that is found in the file may belong to one size: then it does not grow with the
    matrices, and its kernel is launched as one without a launch, unless its blocks loop. Raise
    NotSupported if no launch fits, CompilerError if none compiles.
    """
    refused: StudyError | None = None
    unknown: StudyError | None = None  # why several steps were not judged: one may be a product
    for steps in _launched(text, option, name):
        source = Source.of(path, text, *steps)
        if source.has_untyped_matrices and _OTHER_TYPES.search(source.main.kernel):
            refused = refused or _untyped(path, name)
            continue
        try:
            is_declared = not steps[-1].line or source.loops_over_blocks
            judged = _judge(source, source.library("counted"), is_declared)
        except (CompilerError, NotSupported) as error:
            if len(steps) > 1:
                unknown = unknown or error
            elif isinstance(error, CompilerError):
                refused = refused or error
            else:
                raise
            continue
        if judged and steps[-1].line and _has_no_blocks(judged):
            continue  # only the runtime knows their number
        if judged and not judged.multiple and source.has_untyped_matrices:
            refused = refused or _untyped(path, name)
        elif judged and not judged.multiple and (padded := _padded_matrix(judged, option)):
            raise NotSupported(
                f"{shown(path)}: {name}: the file allocates more for {padded} than the matrix has, "
                "and its kernel needs it; host execution allocates matrices without padding"
            )
        elif judged and (judged.multiple or not unknown):
            return judged
        if not judged and len(steps) > 1:
            how = f"do not grow with the matrices; write them, such as --launch '{written(steps)}'"
            unknown = unknown or NotSupported(f"{shown(path)}: {name}: its launches {how}")
    if unknown:
        raise unknown
    return _judge_by_guesses(path, text, name, refused)


def _configured(source: Source, library: Library, reading: Reading, shape: Shape) -> Configured:
    """Return the launch that multiplies matrices of a shape; it is not run."""
    return library.multiplies(reading.values(shape), [0] * len(source.scope.pointers))


def _has_no_blocks(judged: Judged) -> bool:
    library = judged.source.library("counted")
    return 0 in _configured(judged.source, library, judged.reading, judged.shapes[0]).grid


def _padded_matrix(judged: Judged, option: str | None) -> str | None:
    """Return the matrix behind which a kernel accesses memory that its file allocates, or None."""
    source, shape = judged.source, judged.shapes[0]
    if not re.search(r"element \d+ of .* is out of bounds", judged.fault or ""):
        return None
    steps = [each for each in of_file(source.text, option) if each.name == MALLOC]
    mallocs = [each for each in steps if each.enclosing == source.main.enclosing]
    padded = Source.of(source.path, source.text, *mallocs, *source.steps)
    try:
        library = padded.library("launch")
    except StudyError:
        return None
    pointers, values = list(padded.scope.pointers), judged.reading.values(shape)
    if pointers != list(source.scope.pointers):
        return None
    precision = judged.reading.precision
    elements = {
        "A": (shape.m * shape.k, precision.a),
        "B": (shape.k * shape.n, precision.b),
        "C": (shape.m * shape.n, precision.c),
    }
    sizes = {
        name: count * np.dtype(kind.dtype).itemsize for name, (count, kind) in elements.items()
    }
    allocated = zip(pointers, library.allocated(values, len(pointers)), strict=True)
    roles = judged.reading.matrices
    return next((name for name, size in allocated if size > sizes.get(roles[name], size)), None)


def _untyped(path: Path, name: str) -> NotSupported:
    how = "takes its matrices as void *; host execution passes float: give their types"
    return NotSupported(f"{shown(path)}: {name}: {how}")


def _judge_by_guesses(path: Path, text: str, name: str, refused: StudyError | None) -> Judged:
    """Judge a kernel with the first guessed launch that gives a product at all."""
    kernel = kernels_of(text)[name]
    code = for_the_device(text, {name})
    example: Launch | None = None
    likeliest: Judged | None = None
    for guess in guesses(name, kernel, for_the_device(text, {name})):
        probe = Source.of(path, text, guess.probe)
        try:
            library = probe.library("counted")
        except CompilerError as error:
            refused = refused or error
            continue
        geometry, is_sure = _fitting(library, probe, guess, "blockDim" in code)
        launch = guess.launch(geometry)
        source = Source.of(path, text, launch)
        judged = _judge(source, source.library("counted"), geometry=geometry)
        if judged and judged.multiple:
            return replace(judged, is_guessed=True)
        if judged and is_sure:
            likeliest = likeliest or judged
            if not guess.declarations and not probe.has_untyped_matrices:
                return judged
        example = example or launch
    if likeliest and not probe.has_untyped_matrices:
        return likeliest
    if refused and (likeliest or example is None):
        raise refused
    arguments = ", ".join(named(each) for each in parameters(kernel, name))
    grid = "dim3(CEIL_DIV(N, 16), CEIL_DIV(M, 16)), dim3(16, 16)"
    raise NotSupported(
        f"{shown(path)}: {name}: no launch was found, and none that was tried gives a product; "
        f"write it, such as --launch '{example or f'{name}<<<{grid}>>>({arguments})'}'"
    )


def unjudged(path: Path, text: str, option: str | None, kernel: str | None) -> list[Judged]:
    """Return launches of a file's kernels that the host cannot run, as they would be judged first.

    A kernel is missing if it has no launch that grows with the matrices.
    """
    products = [
        steps
        for name in kernels_to_judge(path, text, option, kernel)
        for steps in _several_or_single(_launched(text, option, name))
    ]
    assumed = []
    for steps in products:
        source = Source.of(path, text, *steps)
        try:
            library = source.library("launch")
            reading = next(iter(readings(source))).typed(library)
        except StudyError:  # another launch may compile
            continue
        if tile := _tile(library, source, reading):
            multiple, shapes = lcm(*tile), (_whole(tile, reading),)
            assumed.append(Judged(source, reading, tile, multiple, shapes, None, is_checked=False))
    return assumed


def _fitting(
    library: Library, probe: Source, guess: Guess, takes_any_block: bool
) -> tuple[Geometry, bool]:
    """Return the geometry that gives the best product, and whether the kernel declares it.

    It is if it stores all elements, or if the kernel itself says how it divides C among its blocks:
    by numbers that are not guessed, or by the sizes of its blocks.
    """
    tried = list(readings(probe))
    fixed = library.fixed_shape()
    best: tuple[Outcome, Geometry] | None = None
    is_divided = False
    for reading in tried:
        small, large = (
            _configured(probe, library, reading, Shape.square(size)) for size in (_WIDE, _LARGE)
        )
        # What depends on the matrices' sizes is no edge of a tile, and is unknown.
        x, y = (s if s == edge else 0 for s, edge in zip(small.grid[:2], large.grid, strict=False))
        shape = fixed or _for_guesses((x, y), reading)
        typed = reading.typed(library)
        is_divided = all((x, y)[: 1 + guess.uses_y[0]])
        for bound in dict.fromkeys((large.block[0], 0)):
            for geometry in geometries((x, y), bound, guess.uses_y):
                sizes = geometry.blocks(shape.m, shape.n), geometry.block
                outcome = Trial(library, typed).outcome(shape, sizes)[0]
                if best is None or outcome < best[0]:
                    best = outcome, geometry
                if outcome is Outcome.RIGHT:
                    return geometry, True
    assert best is not None
    is_by_blocks = takes_any_block and best[0] is not Outcome.SPARSE
    is_sure = (is_divided or is_by_blocks) and not guess.declarations
    return best[1], best[0] <= Outcome.RACES or is_sure


def _for_guesses(edges: Sequence[int], reading: Reading) -> Shape:
    """Return a shape that likely tiles divide, in different numbers along M and N."""
    edge = lcm(32, *(min(_LARGEST_TILE, max(each, 1)) for each in edges))
    edge = edge if edge <= 2 * _LARGEST_TILE else _LARGEST_TILE
    return Shape.square(2 * edge) if reading.is_square else Shape(1, 2 * edge, 3 * edge, 64)


def _judge(
    source: Source, library: Library, is_declared: bool = False, geometry: Geometry | None = None
) -> Judged | None:
    """Judge a kernel with one launch, whose `geometry` may be a guess.

    Return None if the launch does not grow with the matrices, unless its user declares it. Where
    blocks loop, a guess has more of them than its user may launch; so it is tried with fewer, too.
    """
    first: Judged | None = None
    fixed = library.fixed_shape()
    for reading in (each.typed(library) for each in readings(source)):
        edges = (1, 1) if fixed else _tile(library, source, reading)
        if edges is None and not is_declared:
            continue
        tile = edges or (_ANY, _ANY)
        whole = fixed or _whole(tile, reading)
        outcome, trial = Trial(library, reading).outcome(whole)
        fault = trial.fault(whole, 2)
        if not (fixed or fault or outcome is not Outcome.RIGHT):
            fault = _fault_of_loops(trial, source, edges, geometry)
        if outcome is not Outcome.RIGHT or fault:
            first = first or Judged(source, reading, tile, 0, (whole,), fault)
        elif fixed:
            fault = trial.undefined(fixed)
            right = int(fault is None)
            return Judged(source, trial.reading, tile, right, (fixed,), fault, is_fixed=True)
        else:
            verdict = _for_sizes(source, trial, tile, whole)
            return replace(verdict, has_fixed_grid=edges is None)
    return first and (_for_large_multiples(source, library, first) or first)


def _for_large_multiples(source: Source, library: Library, judged: Judged) -> Judged | None:
    """Return the verdict on a kernel that is wrong at small sizes, but needs large multiples.

    Such a kernel visits its blocks in groups. None is returned if it is wrong there too.
    """
    reading, edge, fault = judged.reading, _LARGEST_MULTIPLE, judged.fault or ""
    if source.main.line == 0 or kind_of(fault) is Outcome.RACES or "shared memory" in fault:
        return None
    wide, least = (Shape(1, edge, n * edge, _WIDE) for n in (2, 1))
    if reading.is_square:
        wide = least = Shape.square(edge)
    launched = _configured(source, library, reading, wide)
    if judged.is_fixed or prod(launched.grid) * prod(launched.block) > _MOST_THREADS // 8:
        return None
    outcome, trial = Trial(source.library("separate"), reading).outcome(wide)
    if outcome is not Outcome.RIGHT or Trial(library, trial.reading).fault(least, 2):
        return None
    shapes = wide, least
    return replace(judged, reading=trial.reading, multiple=edge, shapes=shapes)


def _fault_of_loops(
    trial: Trial, source: Source, tile: tuple[int, int] | None, geometry: Geometry | None
) -> str | None:
    """Return the fault if a block computes several tiles; None without a fault.

    That is with few blocks. Where the launch fixes their number or lets it grow with C, the kernel
    may rely on it: then only races count.
    """
    if not (source.takes_any_grid if geometry else source.loops_over_blocks or not tile):
        return None
    shape = _whole(tile or (_LARGEST_TILE, _LARGEST_TILE), trial.reading)
    if geometry:
        blocks = [-(-size // 3) for size in geometry.blocks(shape.m, shape.n)]
        return trial.fault(shape, 2, geometry=(blocks, geometry.block))
    shape = shape if trial.reading.is_square else replace(shape, k=_ANY)
    launched = _configured(source, trial.library, trial.reading, shape)
    blocks = [min(size, 2) for size in launched.grid]
    fault = trial.fault(shape, 2, geometry=(blocks, launched.block))
    is_fault = fault and (kind_of(fault) is Outcome.RACES or (source.takes_any_grid and not tile))
    return fault if is_fault else None


def _tile(library: Library, source: Source, reading: Reading) -> tuple[int, int] | None:
    """Return rows and columns of C per block, by how the grid grows; None if it does not."""

    def blocks(m: int, n: int) -> int:
        shape = Shape(1, m, n, _LARGE)
        launched = _configured(source, library, reading, shape)
        return int(np.prod([float(size) for size in launched.grid]))

    base = blocks(_LARGE, _LARGE)
    grows = blocks(2 * _LARGE, _LARGE) > base, blocks(_LARGE, 2 * _LARGE) > base
    if reading.is_square:
        if blocks(2 * _LARGE, 2 * _LARGE) <= base:
            return None
        edge = _first_growth(lambda n: blocks(n, n))
        return edge, edge
    if not any(grows):
        return None
    area = _LARGE * _LARGE / base
    rows = _first_growth(lambda m: blocks(m, _LARGE)) if grows[0] else _ANY
    columns = max(1, round(area / rows)) if all(grows) else _ANY
    return rows, columns if grows[1] else _ANY


def _first_growth(blocks: Callable[[int], int]) -> int:
    """Return the edge that one block covers: where the number of blocks first grows."""
    count = blocks(1)
    least, most = 1, 2
    while blocks(most) <= count and most < _LARGE:
        least, most = most, 2 * most
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (middle, most) if blocks(middle) <= count else (least, middle)
    return least if count else most  # a grid that is rounded down begins with a whole tile


def _whole(tile: tuple[int, int], reading: Reading) -> Shape:
    """Return a shape that tiles divide, with several blocks in each direction if it is small."""
    rows, columns = (lcm(32, edge) if lcm(32, edge) <= _LARGEST_TILE else edge for edge in tile)
    if reading.is_square:
        edge = lcm(rows, columns)
        return Shape.square(edge * max(2, -(-_WIDE // edge)))
    return Shape(1, 2 * rows if rows <= columns else rows, 2 * columns, _DEEP)


def _for_sizes(source: Source, trial: Trial, tile: tuple[int, int], whole: Shape) -> Judged:
    """Return the verdict on a kernel that is right for whole tiles.

    A kernel may need edges that are multiples of its tile. Then a product with more such edges is
    right wherever one with fewer is: otherwise its bounds are wrong.
    """
    reading = trial.reading
    wrong = trial.undefined(whole) or _wrong_factors(trial, whole) or _wrong_rows(trial, whole)
    if wrong:
        return Judged(source, reading, tile, 0, (whole,), wrong)
    shapes = {which: _partly(which, tile, reading) for which in _partial(reading)}
    faults = {which: trial.fault(shape, 3) for which, shape in shapes.items()}
    others = [Shape.square(3) if reading.is_square else Shape(1, 5, 3, 7), _even(tile, reading)]
    if not reading.is_square:
        others.append(Shape(1, *tile, _DEEPEST + 1))
    checked = (whole, *shapes.values(), *others)
    first = next(filter(None, faults.values()), None)
    if first is None:
        fault = next(filter(None, (trial.fault(shape, _seed(shape)) for shape in others)), None)
        fault = fault or _wrong_rows(trial, others[1])
        return Judged(source, reading, tile, int(not fault), checked, fault)
    for right, wrong_too in product(faults, faults):
        is_more = all(w >= r for w, r in zip(wrong_too, right, strict=True))
        if faults[right] is None and faults[wrong_too] and is_more:
            return Judged(source, reading, tile, 0, checked, faults[wrong_too])
    for multiple in dict.fromkeys([*_MULTIPLES, min(lcm(*tile), _LARGEST_MULTIPLE)]):
        multiples = _multiples(multiple, tile, reading)
        found = (trial.fault(shape, _seed(shape)) for shape in multiples)
        if (fault := next(filter(None, found), None)) is None:
            return Judged(source, reading, tile, multiple, (whole, *multiples), first)
    return Judged(source, reading, tile, 0, (whole,), fault)


def _seed(shape: Shape) -> int:
    """Return the seed of a product's matrices; deep sums get large numbers."""
    return LARGE if shape.k > _DEEP else 5


def _wrong_factors(trial: Trial, shape: Shape) -> str | None:
    """Return what is wrong with alpha·A·B + beta·C, None if the launch has no such factors."""
    factors = tuple(
        value if name in trial.reading.numbers.values() else neutral
        for name, value, neutral in zip(("ALPHA", "BETA"), _FACTORS, (1.0, 0.0), strict=True)
    )
    if factors == (1.0, 0.0) or trial.reading.precision.c.digits < _FLOAT_DIGITS:
        return None
    return trial.fault(shape, 7, factors=(factors[0], factors[1]))


def at_large_sizes(judged: Judged) -> Judged:
    """Judge a right kernel beyond usual limits, and where indices of 32 bits end."""
    if not judged.multiple or judged.is_fixed:
        return judged
    source, reading = judged.source, judged.reading
    right, fault = list[Shape](), None
    # A guess has a thread per element; a loop over blocks would go on behind the last index.
    is_overfull = judged.is_guessed and source.takes_any_grid
    if len(source.launches) == 1 and not (reading.has_addend or is_overfull):
        right, fault = LastBlocks.of(source, reading, judged.multiple, *judged.tile).fault()
    # Optimised and without counts: other runs have checked the bounds.
    library = source.library("separate")
    large = _many_blocks(judged, library, is_small=bool(right))
    fault = fault or Trial(library, reading).fault(large, LARGE)
    shapes = (*judged.shapes, large, *right)
    if fault:
        return replace(judged, multiple=0, shapes=shapes, fault=fault)
    return replace(judged, shapes=shapes)


def _many_blocks(judged: Judged, library: Library, is_small: bool) -> Shape:
    """Return a shape with prime numbers of tiles: blocks that are visited in groups leave a rest.

    One edge exceeds usual limits, also of a square unless it `is_small`. If there are very many
    threads, there are few rows.
    """
    reading, multiple = judged.reading, judged.multiple
    rows, columns = (lcm(multiple, min(edge, _LARGEST_TILE)) for edge in judged.tile)
    wide = columns * _prime_from(LARGE_EDGE / columns)
    if reading.is_square:
        edge = lcm(rows, columns)
        return Shape.square(edge * _prime_from((_SMALL_EDGE if is_small else LARGE_EDGE) / edge))
    depth = multiple * _odd_above(_ANY / multiple)
    if judged.has_fixed_grid:
        edge = -(-LARGE_EDGE // multiple) * multiple
        return Shape(1, edge, 4 * edge, depth)
    shape = Shape(1, rows * _prime_from(min(19, _SMALL_EDGE / rows)), wide, depth)
    launched = _configured(judged.source, library, reading, shape)
    if prod(launched.grid) * prod(launched.block) <= _MOST_THREADS:
        return shape
    return replace(shape, m=rows * 3)


def _wrong_rows(trial: Trial, shape: Shape) -> str | None:
    """Return the fault with leading dimensions above the sizes, None without a fault."""
    if not trial.reading.takes_padding:
        return None
    return replace(trial, reading=replace(trial.reading, padding=_PADDING)).fault(shape, 4)


def _prime_from(least: float) -> int:
    return next(p for p in count(max(3, ceil(least))) if all(p % d for d in range(2, isqrt(p) + 1)))


def _partial(reading: Reading) -> list[tuple[bool, ...]]:
    """Return which of M, N and K are multiples of the tile, in each product to check."""
    if reading.is_square:
        return [(False,)]
    return sorted(product((False, True), repeat=3))[:-1]


def _partly(which: tuple[bool, ...], tile: tuple[int, int], reading: Reading) -> Shape:
    """Return a shape with several blocks; the edges in `which` are multiples of the tile."""
    rows, columns = (min(each, _LARGEST_TILE) for each in tile)
    if reading.is_square:
        return Shape.square(2 * max(rows, columns) + 1)
    depth = 65 if rows != 32 else 97  # one more than usual tiles, and no other edge
    whole, odd = (2 * rows, 3 * columns, 64), (2 * rows + 1, columns + 1, depth)
    edges = [w if is_whole else o for is_whole, w, o in zip(which, whole, odd, strict=True)]
    return Shape(1, *edges)


def _even(tile: tuple[int, int], reading: Reading) -> Shape:
    """Return a shape whose edges are twice an odd number: vectors of two fit, but not of four."""
    rows, columns = (4 * (min(edge, _LARGEST_TILE) // 4) + 6 for edge in tile)
    return Shape.square(max(rows, columns)) if reading.is_square else Shape(1, rows, columns, 42)


def _multiples(multiple: int, tile: tuple[int, int], reading: Reading) -> Sequence[Shape]:
    """Return shapes whose edges are odd multiples of a number, with several blocks.

    One is small, one has many rows, and one is deep.
    """
    rows, columns = (_odd_above(min(each, _LARGEST_TILE) / multiple) * multiple for each in tile)
    least = Shape.square(multiple)
    if reading.is_square:
        edge = max(rows, columns)
        return [least, Shape.square(edge), Shape.square(edge + 2 * multiple)]
    depth = _odd_above(32 / multiple) * multiple
    deep = Shape(1, lcm(multiple, tile[0]), lcm(multiple, tile[1]), lcm(multiple, _DEEPEST))
    tall = Shape(1, rows + 2 * multiple, columns, depth)
    if max(rows, columns) > _LARGEST_TILE:
        return [least, tall, Shape(1, rows, columns + 2 * multiple, depth), deep]
    small, wide = Shape(1, rows, columns, depth), Shape(1, 3 * columns, rows, depth)
    return [least, small, replace(tall, k=2 * depth), wide, deep]


def _odd_above(number: float) -> int:
    whole = int(number) + 1
    return whole + (whole + 1) % 2
