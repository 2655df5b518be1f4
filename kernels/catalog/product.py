"""Products: a variant on matrices of one shape and element type."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kernels.catalog.entries import variant
from kernels.products.shape import Shape

# The variant over which speedups are, and the block size of the source's launch of it.
BASELINE, BASELINE_BLOCK = "naive", 32


@dataclass(frozen=True)
class Product:
    """A variant on matrices of one shape and type of elements; `block_size` None: it has none."""

    variant: str
    dtype: str
    shape: Shape
    block_size: int | None


def products_of(
    variants: Sequence[str],
    dtypes: Sequence[str],
    wanted_block_sizes: Sequence[int],
    shapes: Sequence[Shape],
) -> Iterator[Product]:
    """Yield the products of a series; every variant takes what it can of it.

    Raises StudyError for a variant that is not in the catalog.
    """
    for name in variants:
        entry = variant(name)
        for dtype in dtypes:
            for block in block_sizes(name, wanted_block_sizes):
                for shape in shapes:
                    if dtype in entry.dtypes and entry.takes(shape):
                        yield Product(name, dtype, shape, block)


def block_sizes(name: str, wanted: Sequence[int]) -> list[int | None]:
    """Return those `wanted` block sizes that the variant takes; [None] if it has none at all.

    All where they are shapes of tiles.
    """
    entry = variant(name)
    if entry.block_sizes is None:
        return [None]
    if entry.has_tiles:
        return list(entry.block_sizes)
    return [b for b in wanted if b in entry.block_sizes]
