"""The verdict on a kernel: correct, correct for multiples of a number, or wrong."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import lcm
from pathlib import Path

import numpy as np

from base.errors import StudyError
from base.paths import shown
from kernels.host_execution.binding import KernelFault
from kernels.host_execution.compiler import CompilerError, NotSupported
from kernels.launches.device import for_the_device
from kernels.launches.expression import named, of_file, parameters
from kernels.launches.infer import Geometry, Guess, geometries, guesses
from kernels.launches.library import Library, Source
from kernels.launches.reading import LAYOUTS, Operands, Reading, readings
from kernels.launches.shim import kernels_of, scope_of
from kernels.launches.structs import matrix_count
from kernels.products.gate import Verdict
from kernels.products.shape import Shape

_LARGE = 1 << 13  # an edge at which every grid has many blocks
_MULTIPLES = (2, 4, 8, 16, 32, 64, 128, 256)
_LARGEST_TILE = 128
_LARGE_EDGE = 1024  # a usual limit: threads per block
# Rounding of 16-bit operands, and of TF32.
_LOW_PRECISION = 2.0**-9


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

    @property
    def layout(self) -> str:
        """What the product is, if it is not that of row-major matrices."""
        return LAYOUTS[self.reading.layout]


@dataclass(frozen=True)
class _Trial:
    """A launch with one reading on the host."""

    library: Library
    reading: Reading

    def fault(self, shape: Shape, seed: int) -> str | None:
        """Return what is wrong with products of seeded matrices; None if they are right."""
        for is_whole in self.reading.precision.kinds:
            operands = Operands.random(shape, seed, self.reading, is_whole)
            try:
                result = self.reading.run(self.library, operands)
            except KernelFault as fault:
                return f"{fault} (at size {shape})"
            verdict = operands.verdict(self.reading.layout, result)
            if not verdict.passed:
                hint = self._hint(operands, verdict)
                return f"{self.library.name} at size {shape}: {verdict.reason}{hint}"
        return None

    def with_layout(
        self, shape: Shape, geometry: tuple[Sequence[int], Sequence[int]] | None = None
    ) -> "_Trial | None":
        """Return the trial with the layout in which a product is right; None if there is none.

        If no product with wide sums is right, sums of 16 bits are tried.
        """
        operands = Operands.random(shape, 1, self.reading)
        try:
            result = self.reading.run(self.library, operands, geometry)
        except KernelFault:
            return None
        precision, is_fixed = self.reading.precision, self.reading.has_leading_dimensions
        for short_sums in (False, True)[: 1 + precision.has_short]:
            allowed = replace(precision, short_sums=short_sums)
            for layout in [self.reading.layout] if is_fixed else LAYOUTS:
                if replace(operands, precision=allowed).verdict(layout, result).passed:
                    reading = replace(self.reading, layout=layout, precision=allowed)
                    trial = replace(self, reading=reading)
                    if not short_sums or trial.is_exact(shape, geometry):
                        return trial
        return None

    def is_exact(self, shape: Shape, geometry: tuple[Sequence[int], Sequence[int]] | None) -> bool:
        """Return whether a product of whole numbers is exact; raise KernelFault."""
        operands = Operands.random(shape, 1, self.reading, is_whole=True)
        result = self.reading.run(self.library, operands, geometry)
        return operands.verdict(self.reading.layout, result).passed

    def _hint(self, operands: Operands, verdict: Verdict) -> str:
        """Return the likely cause of a wrong product, if it is one of those that are common."""
        if operands.is_whole:
            return ""
        if verdict.worst_error <= _LOW_PRECISION * operands.shape.k:
            return "; the error is that of TF32 or 16-bit operands"
        zeros = replace(operands, c=np.zeros_like(operands.c))
        if not self.reading.reads_c:
            result = self.reading.run(self.library, zeros)
            if zeros.verdict(self.reading.layout, result).passed:
                return "; it adds to C, which is not initialised: C = A·B only, so do not read C"
        return ""


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
    if kernel:
        return [kernel]
    products = [name for name, piece in present.items() if matrix_count(text, name, piece) == 3]
    launched = [launch.name for launch in of_file(text, option) if launch.name in products]
    if not products:
        raise StudyError(
            f"{shown(path)}: no kernel takes three matrices: {', '.join(present)}; name a file "
            "with C = A·B"
        )
    return list(dict.fromkeys(launched)) or products


def judge(path: Path, text: str, name: str, option: str | None = None) -> Judged:
    """Judge a kernel of a file with this text on the host.

    A launch that is found in the file may belong to one size: then it does not grow with the
    matrices, and its kernel is launched as one without a launch. Raise NotSupported if no launch
    fits, CompilerError if none compiles.
    """
    refused: CompilerError | None = None
    for launch in of_file(text, option):
        if launch.name == name:
            source = Source(path, text, (launch,), scope_of(text, launch))
            try:
                judged = _judge(source, source.library("counted"))
            except CompilerError as error:
                refused = refused or error
                continue
            if judged:
                return judged
    return _judge_by_guesses(path, text, name, refused)


def _judge_by_guesses(path: Path, text: str, name: str, refused: CompilerError | None) -> Judged:
    """Judge a kernel with the first guessed launch that gives a product at all."""
    kernel = kernels_of(text)[name]
    likeliest: Judged | None = None
    for guess in guesses(name, kernel, for_the_device(text, {name})):
        probe = Source(path, text, (guess.probe,), scope_of(text, guess.probe))
        try:
            library = probe.library("counted")
        except CompilerError as error:
            refused = refused or error
            continue
        geometry = _fitting(library, probe, guess) or _likeliest(library, probe, guess)
        launch = guess.launch(geometry)
        source = Source(path, text, (launch,), scope_of(text, launch))
        judged = _judge(source, source.library("counted"))
        if judged and judged.multiple:
            return judged
        likeliest = likeliest or judged
        if judged and not guess.declarations:
            return judged
    if likeliest is None and refused:
        raise refused
    arguments = ", ".join(named(each) for each in parameters(kernel, name))
    grid = "dim3(CEIL_DIV(N, 16), CEIL_DIV(M, 16)), dim3(16, 16)"
    example = likeliest.source.launches[-1] if likeliest else f"{name}<<<{grid}>>>({arguments})"
    raise NotSupported(
        f"{shown(path)}: {name}: no launch was found, and none that was tried gives a product; "
        f"write it, such as --launch '{example}'"
    )


def _likeliest(library: Library, probe: Source, guess: Guess) -> Geometry:
    """Return the first geometry for a kernel that no geometry makes right."""
    reading = next(iter(readings(probe)))
    addresses = [0] * len(probe.scope.pointers)
    edges = library.configured(reading.values(Shape.square(128)), addresses)[-1]
    return next(iter(geometries(edges.grid[:2], edges.block[0], guess.uses_y)))


def _fitting(library: Library, probe: Source, guess: Guess) -> Geometry | None:
    """Return the first geometry that gives a product, of any or else of square matrices."""
    tried = list(readings(probe))
    addresses = [0] * len(probe.scope.pointers)
    fixed = library.fixed_shape()
    shapes = [Shape(1, 256, 128, 64), Shape.square(128)][tried[0].is_square :]
    for shape in [fixed] if fixed else shapes:
        for reading in tried:
            edges = library.configured(reading.values(shape), addresses)[-1]
            bound = edges.block[0]
            for geometry in geometries(edges.grid[:2], bound, guess.uses_y):
                sizes = geometry.blocks(shape.m, shape.n), geometry.block
                if _Trial(library, reading.typed(library)).with_layout(shape, sizes):
                    return geometry
    return None


def _judge(source: Source, library: Library) -> Judged | None:
    """Judge a kernel with one launch: None if the launch does not grow with the matrices."""
    first: Judged | None = None
    fixed = library.fixed_shape()
    for reading in (each.typed(library) for each in readings(source)):
        if fixed:
            right = _Trial(library, reading).with_layout(fixed)
            if right and right.fault(fixed, 2) is None:
                return Judged(source, right.reading, (1, 1), 1, (fixed,), None, is_fixed=True)
            continue
        tile = _tile(library, source, reading)
        if tile is None:
            continue
        whole, trial = _whole(tile, reading), _Trial(library, reading)
        right = trial.with_layout(whole)
        fault = (right or trial).fault(whole, 2)
        if right and fault is None:
            return _for_sizes(source, right, tile, whole)
        first = first or Judged(source, reading, tile, 0, (whole,), fault)
    return first


def _tile(library: Library, source: Source, reading: Reading) -> tuple[int, int] | None:
    """Return rows and columns of C per block, by how the grid grows; None if it does not."""
    addresses = [0] * len(source.scope.pointers)

    def blocks(m: int, n: int) -> int:
        shape = Shape(1, m, n, _LARGE)
        launched = library.configured(reading.values(shape), addresses)[-1]
        return int(np.prod([float(size) for size in launched.grid]))

    base = blocks(_LARGE, _LARGE)
    if reading.is_square:
        if blocks(2 * _LARGE, 2 * _LARGE) <= base:
            return None
        edge = max(1, round(_LARGE / base**0.5))
        return edge, edge
    if blocks(2 * _LARGE, _LARGE) <= base or blocks(_LARGE, 2 * _LARGE) <= base:
        return None
    area = _LARGE * _LARGE / base
    rows = _first_growth(lambda m: blocks(m, _LARGE))
    return rows, max(1, round(area / rows))


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
        return Shape.square(2 * lcm(rows, columns))
    return Shape(1, 2 * rows if rows <= columns else rows, 2 * columns, 96 if rows != 96 else 160)


def _for_sizes(source: Source, trial: _Trial, tile: tuple[int, int], whole: Shape) -> Judged:
    """Return the verdict on a kernel that is right for whole tiles.

    A kernel may need edges that are multiples of its tile. Then a product with more such edges is
    right wherever one with fewer is: otherwise its bounds are wrong.
    """
    shapes = {which: _partly(which, tile, trial.reading) for which in _partial(trial.reading)}
    faults = {which: trial.fault(shape, 3) for which, shape in shapes.items()}
    small = Shape.square(3) if trial.reading.is_square else Shape(1, 5, 3, 7)
    small_fault = trial.fault(small, 5)
    large, large_fault = _large(source, trial)
    checked = (whole, *shapes.values(), small, large)
    first = next(filter(None, faults.values()), None)
    if first is None:
        fault = small_fault or large_fault
        return Judged(source, trial.reading, tile, int(not fault), checked, fault)
    for right, wrong in product(faults, faults):
        if (
            faults[right] is None
            and faults[wrong]
            and all(w >= r for w, r in zip(wrong, right, strict=True))
        ):
            return Judged(source, trial.reading, tile, 0, checked, faults[wrong])
    for multiple in _MULTIPLES:
        multiples = _multiples(multiple, tile, trial.reading)
        if all(trial.fault(shape, 4) is None for shape in multiples):
            checked = (whole, *multiples, large)
            right_multiple = 0 if large_fault else multiple
            return Judged(
                source, trial.reading, tile, right_multiple, checked, large_fault or first
            )
    return Judged(source, trial.reading, tile, 0, (whole,), first)


def _large(source: Source, trial: _Trial) -> tuple[Shape, str | None]:
    """Return a shape beyond most limits of a kernel, a multiple of its tile, and its fault there.

    It runs optimised, without counts: other runs have checked the bounds.
    """
    edge = _LARGE_EDGE + _LARGEST_TILE
    shape = Shape.square(edge) if trial.reading.is_square else Shape(1, 256, edge, 256)
    fast = replace(trial, library=source.library("separate"))
    return shape, fast.fault(shape, 6)


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
    whole, odd = (2 * rows, 3 * columns, 64), (2 * rows + 1, columns + 3, 67)
    edges = [w if is_whole else o for is_whole, w, o in zip(which, whole, odd, strict=True)]
    return Shape(1, *edges)


def _multiples(multiple: int, tile: tuple[int, int], reading: Reading) -> Sequence[Shape]:
    """Return shapes whose edges are odd multiples of a number, with several blocks; and small."""
    rows, columns = (_odd_above(min(each, _LARGEST_TILE) / multiple) * multiple for each in tile)
    least = Shape.square(multiple)
    if reading.is_square:
        edge = max(rows, columns)
        return [least, Shape.square(edge), Shape.square(edge + 2 * multiple)]
    depth = _odd_above(32 / multiple) * multiple
    return [
        least,
        Shape(1, rows, columns, depth),
        Shape(1, rows + 2 * multiple, columns, 2 * depth),
    ]


def _odd_above(number: float) -> int:
    whole = int(number) + 1
    return whole + (whole + 1) % 2
