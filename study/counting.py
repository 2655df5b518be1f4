"""Which memory-access tables a study needs."""

from collections.abc import Iterable
from math import lcm

from kernels.catalog.entries import variant
from kernels.catalog.product import Product
from kernels.catalog.variant import IN_TURN
from kernels.host_execution.check import MAX_THREADS
from kernels.host_execution.counts import BLOCK_SIZES, Counting
from kernels.products.shape import Shape
from study.config import Study
from study.plan import products

# Products that are executed: an edge of about so much, and those of a study that are no more work.
_EDGE = 64
_UNEVEN = 70
_LARGEST = Shape.square(_UNEVEN)


def plan(
    study: "Study", order: int | None, block_sizes: Iterable[int] = BLOCK_SIZES
) -> list[Counting]:
    """Return the tables of a study: one for each variant, type of elements and block size.

    Each is run at a small order that the exact build takes, at one that needs bounds checks, and at
    the small shapes of the study; those of these `block_sizes`, or without any, at `order` too, if
    it is one of the study. Its other shapes are left to the theory, which was found exact there;
    of shapes of tiles the small ones too, for which lanes take different turns.
    """
    shapes: dict[tuple[str, str, int | None], list[Shape]] = {}
    for one in products(study):
        entry = variant(one.variant)
        if entry.kernel and entry.flow == IN_TURN:  # other passes run the same kernels
            shapes.setdefault((one.variant, one.dtype, one.block_size), []).append(one.shape)
    found = []
    for (name, dtype, block), studied in shapes.items():
        launchable = [shape for shape in studied if _fits(Product(name, dtype, shape, block))]
        entry = variant(name)
        width = lcm(*entry.tile(block or 0))
        counted = [Shape.square(width * -(-_EDGE // width)), Shape.square(_UNEVEN)]
        if not entry.has_tiles:
            counted += [shape for shape in launchable if shape.flop <= _LARGEST.flop]
        if order and dtype == "float32" and (block is None or block in block_sizes):
            counted += [shape for shape in launchable if shape == Shape.square(order)]
        counted = list(dict.fromkeys(counted))
        predicted = tuple(sorted(set(launchable) - set(counted)))
        found.append(Counting(name, dtype, block, tuple(counted), predicted))
    return found


def _fits(product: Product) -> bool:
    """Tell whether the threads of a block are no more than there can be."""
    launch = variant(product.variant).launch(product.shape, product.block_size)
    return launch.threads[0] * launch.threads[1] <= MAX_THREADS
