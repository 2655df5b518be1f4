"""Checking one launch at several sizes: correct, correct for multiples of a number, or wrong."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from math import lcm, prod

from kernels.host_execution.compiler import NotSupported
from kernels.launches.expression import COUNTS
from kernels.launches.infer import Geometry
from kernels.launches.largest import LARGE_EDGE, LastBlocks
from kernels.launches.library import Library, Source
from kernels.launches.reading import LARGE, LAYOUTS, Factors, Reading
from kernels.launches.readings import readings, with_c
from kernels.launches.roles import FACTORS
from kernels.launches.shapes import (
    DEEP,
    DEEPEST,
    LARGEST_TILE,
    WIDE,
    odd_above,
    odd_multiples,
    partly_whole,
    prime_from,
    some_whole,
    twice_odd,
    whole_tiles,
)
from kernels.launches.trials import Fault, Outcome, Trial
from kernels.products.shape import Shape

LARGE_SHAPE = 1 << 11  # an edge at which every grid has many blocks, and 32 threads per element fit
_MULTIPLES = (2, 4, 8, 16, 32, 64, 128, 256)
_LARGEST_MULTIPLE = 512
_LEAST = 8  # an edge so small that every loop must end
_SMALL_EDGE, _SMALL_SQUARE = 330, 513  # least edges of large shapes if they must be small
_MOST_THREADS = 1 << 22  # threads of a launch on the host
ANY = 32  # assumed edge of a block's tile if the grid does not reveal it
_FACTORS: Factors = (-0.75, 1.5)
_WHOLE_FACTORS: Factors = (-3.0, 2.0)
_FLOAT_DIGITS = 24
_OF_THREADS = (Outcome.RACES, Outcome.CROWDED)  # faults that do not depend on the sizes
_NUMBERED = re.compile(r"\bcvta\b|__cvta_generic_to_shared")
_RESERVED = 1024  # bytes of shared memory before a block's own, from compute capability 9.0 on
_PADDING = 16  # padding in elements, such that rows stay aligned for vectors


@dataclass(frozen=True)
class Judged:
    """The verdict on one kernel, and how it was launched.

    `multiple` is 1 for a correct kernel, larger for one that is correct for multiples of it, and 0
    for a wrong one. `fault` is the first fault: of a wrong kernel, or at other sizes.
    """

    source: Source
    reading: Reading
    tile: tuple[int, int]
    multiple: int
    shapes: tuple[Shape, ...]
    fault: Fault | None
    is_fixed: bool = False  # the file fixes the sizes of the kernel
    is_checked: bool = True
    has_fixed_grid: bool = False  # the grid does not depend on the sizes of the matrices
    is_guessed: bool = False  # the launch was guessed
    needs_alignment: bool = False  # shared memory must begin at byte 0
    is_cut_short: bool = False  # no time was left for sizes above 1,024
    defined: tuple[str, ...] = ()  # names of other files of the repository, and which files

    @property
    def layout(self) -> str:
        """In words, which product is computed if it is not that of row-major matrices."""
        return LAYOUTS[self.reading.layout]


def check(
    source: Source, library: Library, is_declared: bool = False, geometry: Geometry | None = None
) -> Judged | None:
    """Judge a kernel with one launch, whose `geometry` may be a guess.

    Return None if the launch does not grow with the matrices, unless its user declares it. If
    blocks loop over tiles, a guessed launch may have more blocks than the user's, so it is also
    tried with fewer. Raise NotSupported if a loop is too long or endless, or no products are
    summed.
    """
    first: Judged | None = None
    likeliest: Judged | None = None
    fixed = library.fixed_shape()
    tried = [each.typed(library) for each in readings(source)]
    for reading in tried:  # the list grows in the loop
        trial = Trial(library, reading)
        edges = (1, 1) if fixed else tile_of(trial)
        if edges is None and not (is_declared or _is_per_product(trial)):
            continue
        tile = edges or (ANY, ANY)
        whole = fixed or whole_tiles(tile, reading)
        outcome, trial = trial.outcome(whole)
        if outcome is Outcome.LONG:
            whole = fixed or trial.shorter(whole)
            outcome, trial = trial.outcome(whole)
        if outcome is Outcome.FAULTY and not (reading.reads_c or reading.loads_c):
            tried += with_c(source, reading)
        if outcome is not Outcome.RIGHT and first:
            continue
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
            if verdict.multiple:
                return replace(verdict, has_fixed_grid=edges is None)
            likeliest = likeliest or verdict  # another reading may give the same product for M = N
    judged = likeliest or (first and (_for_large_multiples(source, library, first) or first))
    if judged and judged.fault and not judged.multiple:
        _refuse_others(library, judged.reading, judged.shapes[0], judged.fault)
    return judged


def _refuse_others(library: Library, reading: Reading, shape: Shape, fault: Fault) -> None:
    """Raise NotSupported if a fault is due to a limit of the host, or the kernel is no product.

    A loop counts as endless if it is long at the smallest size. A kernel that only adds matrices
    computes no product, so it is not called wrong.
    """
    trial = Trial(library, reading)
    if fault.outcome is Outcome.LONG:
        least = trial.fault(Shape.square(_LEAST), 2)
        if not (least and least.outcome is Outcome.LONG):
            raise NotSupported(f"{fault}; host execution counts no more")
    is_wrong = fault.outcome is Outcome.WRONG and not fault.is_shared
    other = f"{library.at(0)}: is not a product of matrices: "
    if is_wrong and trial.is_elementwise(shape):
        raise NotSupported(f"{other}an element of A or B reaches one element of C")
    if is_wrong and trial.is_rectified(shape):
        raise NotSupported(f"{other}it stores 0 for negative elements of A·B (ReLU); remove that")


def equal_sizes(judged: Judged) -> str:
    """Return for which equal sizes a wrong kernel is correct, and if its grid is the cause, or "".

    A program for square matrices may exchange the axes of its grid without a visible error.
    """
    source, reading, fault, shape = judged.source, judged.reading, judged.fault, judged.shapes[0]
    edge = lcm(shape.m, shape.n)
    if not fault or fault.outcome in (*_OF_THREADS, Outcome.LONG):
        return ""
    if reading.is_square or reading.is_batched or edge > _LARGEST_MULTIPLE:
        return ""
    trial = Trial(source.library("counted"), reading)
    unequal = (Shape(1, edge, 2 * edge, shape.k), Shape(1, 2 * edge, edge, shape.k))
    failed = next((each for each in unequal if trial.fault(each, 1)), None)
    if failed and (sizes := _equal_sizes(trial, edge, shape.k)):
        launched = trial.configured(failed)
        x, y, z = launched.grid
        is_turned = trial.fault(failed, 1, geometry=((y, x, z), launched.block)) is None
        cause = ", because the launch exchanges x and y of the grid" if is_turned else ""
        return f"; it is correct for {sizes}{cause}"
    return ""


def _equal_sizes(trial: Trial, edge: int, depth: int) -> str:
    """Return in words for which equal sizes a launch is correct, tried at an edge; else ""."""
    for sizes, more in (("M = N", depth - edge or ANY), ("M = N = K", 0)):
        whole, partial = (Shape(1, size, size, size + more) for size in (edge, edge + 1))
        if trial.fault(whole, 2) is None:
            is_padded = _wrong_rows(trial, whole) is not None
            tiles = " in whole tiles" if trial.fault(partial, 3) else ""
            return sizes + tiles + " without padding" * is_padded
    return ""


def _for_large_multiples(source: Source, library: Library, judged: Judged) -> Judged | None:
    """Return the verdict on a kernel that is wrong at small sizes, but may need large multiples.

    Such a kernel visits its blocks in groups. The result is None if it is wrong at these, too.
    """
    reading, fault = judged.reading, judged.fault
    if (
        source.main.line == 0
        or reading.is_batched
        or (fault and (fault.is_shared or fault.outcome in _OF_THREADS))
    ):
        return None
    for edge, depth in ((LARGEST_TILE, 2 * WIDE), (_LARGEST_MULTIPLE, WIDE)):
        wide, least = (Shape(1, edge, n * edge, depth) for n in (2, 1))
        if reading.is_square:
            wide = least = Shape.square(edge)
        launched = Trial(library, reading).configured(wide)
        if judged.is_fixed or prod(launched.grid) * prod(launched.block) > _MOST_THREADS // 8:
            return None
        # Bounds are checked first, because without checks a wrong kernel stores into other memory.
        outcome, trial = Trial(library, reading).outcome(least)
        if outcome is not Outcome.RIGHT or trial.fault(least, 2):
            continue
        trial = Trial(source.library("separate"), trial.reading)
        shapes = wide, least, least if reading.is_square else replace(least, k=2 * edge)
        if not any(trial.fault(shape, 1) for shape in shapes):
            return replace(judged, reading=trial.reading, multiple=edge, shapes=shapes)
    return None


def _fault_of_loops(
    trial: Trial, source: Source, tile: tuple[int, int] | None, geometry: Geometry | None
) -> Fault | None:
    """Return the fault that appears if few blocks each compute several tiles; None without one.

    If the launch fixes the number of blocks or lets it grow with C, the kernel may rely on this
    number, so only races count as faults.
    """
    if not (source.takes_any_grid if geometry else source.loops_over_blocks or not tile):
        return None
    shape = whole_tiles(tile or (LARGEST_TILE, LARGEST_TILE), trial.reading)
    if geometry:
        blocks = [-(-size // 3) for size in geometry.blocks(shape.m, shape.n)]
        return trial.fault(shape, 2, geometry=(blocks, geometry.block))
    shape = shape if trial.reading.is_square else replace(shape, k=ANY)
    launched = trial.configured(shape)
    blocks = [min(size, 2) for size in launched.grid]
    fault = trial.fault(shape, 2, geometry=(blocks, launched.block))
    is_certain = fault and fault.outcome in _OF_THREADS
    return fault if is_certain or (source.takes_any_grid and not tile) else None


def _is_per_product(trial: Trial) -> bool:
    """Return whether a grid grows with the number of products in a batch."""
    square = Shape.square(ANY)
    return trial.configured(replace(square, batch=2)).grid != trial.configured(square).grid


def tile_of(trial: Trial) -> tuple[int, int] | None:
    """Return rows and columns of C per block, found from the growth of the grid; None without."""

    def blocks(m: int, n: int) -> int:
        return prod(trial.configured(Shape(1, m, n, LARGE_SHAPE)).grid)

    base = blocks(LARGE_SHAPE, LARGE_SHAPE)
    grows = blocks(2 * LARGE_SHAPE, LARGE_SHAPE) > base, blocks(LARGE_SHAPE, 2 * LARGE_SHAPE) > base
    if trial.reading.is_square:
        if blocks(2 * LARGE_SHAPE, 2 * LARGE_SHAPE) <= base:
            return None
        edge = _first_growth(lambda n: blocks(n, n))
        return edge, edge
    if not any(grows):
        return None
    rows = _first_growth(lambda m: blocks(m, LARGE_SHAPE)) if grows[0] else ANY
    columns = _first_growth(lambda n: blocks(LARGE_SHAPE, n)) if grows[1] else ANY
    whole = (LARGE_SHAPE // rows) * (LARGE_SHAPE // columns)
    if all(grows) and not whole <= base <= -(-LARGE_SHAPE // rows) * -(-LARGE_SHAPE // columns):
        columns = max(1, round(LARGE_SHAPE * LARGE_SHAPE / base / rows))  # one axis for all
    return rows, columns


def _first_growth(blocks: Callable[[int], int]) -> int:
    """Return the edge that one block covers: the largest before the number of blocks grows."""
    first = _last_before_growth(blocks, 1)
    # If a grid is rounded down, an edge of one has no block.
    return first if blocks(1) else _last_before_growth(blocks, first + 1) - first


def _last_before_growth(blocks: Callable[[int], int], edge: int) -> int:
    """Return the largest edge with as many blocks as this one."""
    count, least, most = blocks(edge), edge, 2 * edge
    while blocks(most) <= count and most < LARGE_SHAPE:
        least, most = most, 2 * most
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (middle, most) if blocks(middle) <= count else (least, middle)
    return least


def _for_sizes(source: Source, trial: Trial, tile: tuple[int, int], whole: Shape) -> Judged:
    """Return the verdict on a kernel that is correct for whole tiles.

    A kernel may need edges that are multiples of its tile. If so, a product with more such edges is
    correct whenever one with fewer is; otherwise the kernel's bounds are wrong.
    """
    reading = trial.reading
    kinds = [source.scope.numbers[n] for n, use in reading.numbers.items() if use in FACTORS]
    factors = _WHOLE_FACTORS if any(map(COUNTS.search, kinds)) else _FACTORS
    wrong = trial.undefined(whole) or _wrong_factors(trial, whole, factors)
    wrong = wrong or _wrong_rows(trial, whole)
    if wrong:
        return Judged(source, reading, tile, 0, (whole,), wrong)
    shapes = {which: partly_whole(which, tile, reading) for which in some_whole(reading)}
    faults = {which: trial.fault(shape, 3) for which, shape in shapes.items()}
    others = [Shape.square(3) if reading.is_square else Shape(1, 5, 3, 7), twice_odd(tile, reading)]
    if not reading.is_square:
        others.append(Shape(1, *tile, DEEPEST + 1))
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
        multiples = odd_multiples(multiple, tile, reading)
        found = (trial.fault(shape, _seed(shape)) for shape in multiples)
        if (fault := next(filter(None, found), None)) is None:
            return Judged(source, reading, tile, multiple, (whole, *multiples), first)
    return Judged(source, reading, tile, 0, (whole,), fault)


def _seed(shape: Shape) -> int:
    """Return the seed for the matrices of a product; the one for deep sums makes large numbers."""
    return LARGE if shape.k > DEEP else 5


def _wrong_factors(trial: Trial, shape: Shape, factors: Factors) -> Fault | None:
    """Return the fault for alpha·A·B + beta·C; None without a fault or without such factors.

    It is tested because a kernel may have separate code for beta = 0.
    """
    names, plain = trial.reading.numbers.values(), trial.reading.factors
    alpha, beta = (
        value if name in names else neutral
        for name, value, neutral in zip(FACTORS, factors, plain, strict=True)
    )
    if (alpha, beta) == plain or trial.reading.precision.c.digits < _FLOAT_DIGITS:
        return None
    every = dict.fromkeys([(alpha, beta), (alpha, plain[1])])
    return next(filter(None, (trial.fault(shape, 7, factors=each) for each in every)), None)


def _wrong_rows(trial: Trial, shape: Shape) -> Fault | None:
    """Return the fault with leading dimensions larger than the rows; None without a fault."""
    if not trial.reading.takes_padding:
        return None
    padded = replace(trial, reading=replace(trial.reading, padding=_PADDING))
    return padded.fault(replace(shape, batch=1), 4)


def at_large_sizes(judged: Judged) -> Judged:
    """Return the verdict on a correct kernel beyond usual limits, and where 32-bit indices end."""
    judged = replace(judged, needs_alignment=_needs_alignment(judged))
    if not judged.multiple or judged.is_fixed:
        return judged
    source, reading = judged.source, judged.reading
    right, last = list[Shape](), None
    # A guess has a thread per element, so a loop over blocks would run beyond the last index.
    is_overfull = judged.is_guessed and source.takes_any_grid
    if len(source.launches) == 1 and not (reading.has_addend or is_overfull):
        right, last = LastBlocks.of(source, reading, judged.multiple, *judged.tile).fault()
    # An optimised build without counts suffices, because other runs have checked the bounds.
    library = source.library("separate")
    large = _many_blocks(judged, library, is_small=bool(right))
    fault = Fault(last) if last else Trial(library, reading).fault(large, LARGE)
    shapes = (*judged.shapes, large, *right)
    if fault:
        return replace(judged, multiple=0, shapes=shapes, fault=fault)
    return replace(judged, shapes=shapes)


def _needs_alignment(judged: Judged) -> bool:
    """Return whether a correct kernel is wrong where shared memory begins at `_RESERVED`.

    There, nvcc aligns no variable in shared memory to more bytes. Only addresses that are numbers
    can show it.
    """
    if not (judged.multiple and _NUMBERED.search(judged.source.device)):
        return False
    library = judged.source.library("counted")
    with library.shared_memory_at(_RESERVED):
        return Trial(library, judged.reading).fault(judged.shapes[0], 5) is not None


def _many_blocks(judged: Judged, library: Library, is_small: bool) -> Shape:
    """Return a shape with prime numbers of tiles, so that groups of blocks leave a remainder.

    One edge exceeds usual limits, and so do those of a square unless it `is_small`. If that gives
    very many threads, there are few rows.
    """
    reading, multiple = judged.reading, judged.multiple
    rows, columns = (lcm(multiple, min(edge, LARGEST_TILE)) for edge in judged.tile)
    wide = columns * prime_from(LARGE_EDGE / columns)
    if reading.is_square:
        edge = lcm(rows, columns)
        return Shape.square(edge * prime_from((_SMALL_SQUARE if is_small else LARGE_EDGE) / edge))
    depth = multiple * odd_above(ANY / multiple)
    if judged.has_fixed_grid:
        edge = -(-LARGE_EDGE // multiple) * multiple
        return Shape(1, edge, 4 * edge, depth)
    shape = Shape(1, rows * prime_from(min(19, _SMALL_EDGE / rows)), wide, depth)
    launched = Trial(library, reading).configured(shape)
    if prod(launched.grid) * prod(launched.block) <= _MOST_THREADS:
        return shape
    return replace(shape, m=rows * 3)
