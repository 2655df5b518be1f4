"""The memory-access tables of a study."""

from collections.abc import Iterable
from dataclasses import replace
from math import lcm

from kernels.catalog.product import Product
from kernels.catalog.variant import IN_TURN, MAX_THREADS
from kernels.host_execution.counts import BLOCK_SIZES, Counting
from kernels.products.shape import Shape
from study.config import Study
from study.plan import products

# Sizes that are executed: about this edge, a size that no tile divides, and all smaller products.
_EDGE = 64
_UNEVEN = 70
_LARGEST = Shape.square(_UNEVEN)


def plan(
    study: Study, size: int | None, block_sizes: Iterable[int] = BLOCK_SIZES
) -> list[Counting]:
    """Return the tables of a study, one per variant, element type and block size.

    Each kernel is run at two small sizes, for the exact and for the guarded build, and at the small
    shapes of the study. With one of these `block_sizes`, or without block size, it is also run at
    `size`, if the study has that size. All other shapes are left to theory. For tile shapes, the
    small shapes are also left to theory: their lanes differ in the number of iterations.
    """
    by_kernel: dict[Product, list[Product]] = {}
    for one in products(study):
        if one.kernel and one.entry.flow == IN_TURN:  # other flows launch the same kernels
            by_kernel.setdefault(replace(one, shape=_LARGEST), []).append(one)
    return [_counting(one, studied, size, block_sizes) for one, studied in by_kernel.items()]


def _counting(
    uneven: Product, studied: list[Product], size: int | None, block_sizes: Iterable[int]
) -> Counting:
    """Return the table of one kernel, from its products at `_UNEVEN` and in the study."""
    launchable = [one for one in studied if one.launch.threads_per_block <= MAX_THREADS]
    width = lcm(*uneven.tile)
    counted = [replace(uneven, shape=Shape.square(width * -(-_EDGE // width))), uneven]
    if not uneven.entry.fixed_blocks:
        counted += [one for one in launchable if one.shape.flop <= _LARGEST.flop]
    if size and uneven.dtype == "float32" and uneven.block_size in (None, *block_sizes):
        counted += [one for one in launchable if one.shape == Shape.square(size)]
    predicted = sorted(set(launchable) - set(counted), key=lambda one: one.shape)
    return Counting(tuple(dict.fromkeys(counted)), tuple(predicted))
