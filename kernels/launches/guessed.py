"""Judging a kernel whose file contains no launch, by guessing one."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from base.errors import StudyError
from base.paths import shown
from kernels.catalog.source import without_comments
from kernels.host_execution.compiler import CompilerError, NotSupported
from kernels.launches.checks import LARGE_SHAPE, Judged, check
from kernels.launches.device import for_the_device
from kernels.launches.doubts import unsaid
from kernels.launches.expression import Launch
from kernels.launches.infer import Geometry, Guess, geometries, guesses, unknown
from kernels.launches.library import Library, Source
from kernels.launches.pieces import kernels_of, named
from kernels.launches.readings import readings
from kernels.launches.shapes import WIDE, for_guesses
from kernels.launches.trials import Outcome, Trial
from kernels.products.shape import Shape


def by_guesses(
    path: Path, text: str, name: str, refused: StudyError | None, is_launched: bool = False
) -> Judged:
    """Return the verdict on a kernel with the first guessed launch that computes a product.

    `refused` says why a launch in the file was not judged. A guess may differ from that launch, so
    if the kernel `is_launched`, a fault with a guess is not called the kernel's.
    """
    kernel = kernels_of(text)[name]
    code = for_the_device(text, {name})
    uses_z = re.search(r"\bthreadIdx\s*\.\s*z\b", without_comments(code))
    of_file = refused
    example: Launch | None = None
    likeliest: Judged | None = None
    for guess in guesses(name, kernel, code):
        probe = Source.of(path, text, guess.probe)
        if next(readings(probe), None) is None:  # the kernel has too many numbers
            break
        try:
            library = probe.library("counted")
        except CompilerError as error:
            refused = refused or error
            continue
        geometry, numbers, is_sure = _fitting(library, probe, guess, "blockDim" in code)
        is_sure = is_sure and not uses_z and (not is_launched or probe.takes_any_grid)
        launch = guess.launch(geometry, numbers)
        source = Source.of(path, text, launch)
        judged = check(source, source.library("counted"), geometry=geometry)
        if judged and judged.multiple:
            return replace(judged, is_guessed=True)
        if judged and is_sure and not (unsaid(judged) or probe.has_open_types):
            likeliest = likeliest or judged
            if not guess.probe.declarations:
                return judged
        example = example or launch
    if likeliest:
        return likeliest
    if refused and (of_file or example is None):
        raise refused
    arguments = ", ".join(named(each) for each in kernel.parameters)
    grid = "dim3(CEIL_DIV(N, 16), CEIL_DIV(M, 16)), dim3(16, 16)"
    raise NotSupported(
        f"{shown(path)}: {name}: no launch was found, and {unknown(kernel, code)}; write "
        f"it, such as --launch '{example or f'{name}<<<{grid}>>>({arguments})'}'"
    )


def _fitting(
    library: Library, probe: Source, guess: Guess, takes_any_block: bool
) -> tuple[Geometry, Mapping[str, str], bool]:
    """Return the geometry with the best product, the meaning of its numbers, and if it is certain.

    It is certain if it stores all elements, or if the kernel itself says how it divides C among its
    blocks: by numbers that are not guessed, or by its block size.
    """
    tried = list(readings(probe))
    fixed = library.fixed_shape()
    best: tuple[Outcome, Geometry, Mapping[str, str]] | None = None
    is_divided = False
    for reading in tried:
        small, large = (
            Trial(library, reading).configured(Shape.square(size)) for size in (WIDE, LARGE_SHAPE)
        )
        # A size that depends on the matrices is not an edge of a tile; it is unknown.
        x, y = (s if s == edge else 0 for s, edge in zip(small.grid[:2], large.grid, strict=False))
        shape = fixed or for_guesses((x, y), reading)
        typed = reading.typed(library)
        is_divided = all((x, y)[: 1 + guess.uses_y[0]])
        for bound in dict.fromkeys((large.block[0], 0)):
            for geometry in geometries((x, y), bound, guess.uses_y):
                sizes = geometry.blocks(shape.m, shape.n), geometry.block
                outcome = Trial(library, typed).outcome(shape, sizes)[0]
                if best is None or outcome < best[0]:
                    best = outcome, geometry, reading.numbers
                if outcome is Outcome.RIGHT:
                    return geometry, reading.numbers, True
    assert best is not None
    # Other template arguments would need another number of threads.
    has_numbers = any(each.startswith("constexpr") for each in guess.probe.declarations)
    is_by_blocks = takes_any_block and best[0] is not Outcome.SPARSE
    is_sure = (is_divided or is_by_blocks) and not guess.probe.declarations
    # With more shared memory than a guess has, another number of threads might be right.
    is_short = bool(guess.shared) and best[0] in (Outcome.OUTSIDE, Outcome.FAULTY)
    is_crowded = best[0] is Outcome.CROWDED or is_short
    is_own = best[0] <= Outcome.RACES or (is_sure and not is_crowded)
    return *best[1:], is_own and not has_numbers
