"""Which products of a study have their memory accesses counted, and which only predicted."""

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
    """Return the memory-access tables to compute: one per variant, element type and block size.

    Each kernel is run at two small sizes, one for the exact and one for the guarded build, and at
    the small shapes of the study. Kernels with one of these `block_sizes`, or without block size,
    are also run at `size`, if the study has that size. For all other shapes the accesses are
    computed by theory. For tile shapes, the small shapes are also computed by theory, because their
    lanes differ in the number of iterations.
    """
    by_kernel: dict[Product, list[Product]] = {}
    for one in products(study):
        if one.kernel and one.entry.flow == IN_TURN:  # other flows launch these kernels, too
            by_kernel.setdefault(replace(one, shape=_LARGEST), []).append(one)
    return [_counting(one, studied, size, block_sizes) for one, studied in by_kernel.items()]


def _counting(
    uneven: Product, studied: list[Product], size: int | None, block_sizes: Iterable[int]
) -> Counting:
    """Return which products of one kernel are run, and which are computed by theory.

    `uneven` is the small product that needs the guarded build, `studied` are those of the study.
    """
    launchable = [one for one in studied if one.launch.threads_per_block <= MAX_THREADS]
    width = lcm(*uneven.tile)
    counted = [replace(uneven, shape=Shape.square(width * -(-_EDGE // width))), uneven]
    if not uneven.entry.fixed_blocks:
        counted += [one for one in launchable if one.shape.flop <= _LARGEST.flop]
    if size and uneven.dtype == "float32" and uneven.block_size in (None, *block_sizes):
        counted += [one for one in launchable if one.shape == Shape.square(size)]
    predicted = sorted(set(launchable) - set(counted), key=lambda one: one.shape)
    return Counting(tuple(dict.fromkeys(counted)), tuple(predicted))
