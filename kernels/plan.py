"""What a study asks of the catalog: which variants on which matrices, and the cubins for them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernels.catalog import variant
from kernels.cubins import INSTRUMENTS, Build, build_for
from kernels.shape import Shape
from kernels.variant import Variant

if TYPE_CHECKING:  # it is checked by what is here
    from measurement.config import Study

# The variant over which gains are, and the block size of the source's launch of it.
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


def products(study: "Study") -> list[Product]:
    """Return every product of a study, without repeats.

    Those of its square matrices come first, then those of its `series`.
    """
    squares = [Shape.square(n) for n in (*study.sizes, *study.holdout_sizes)]
    found = dict.fromkeys(products_of(study.variants, study.dtypes, study.block_sizes, squares))
    for one in study.series:
        shapes = [Shape.parse(text) for text in one.shapes]
        found |= dict.fromkeys(products_of(one.variants, one.dtypes, one.block_sizes, shapes))
    return [product for product in found if _within_limits(study, product)]


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


def calls(study: "Study") -> list[Variant]:
    """Return the calls from outside of the catalog that a study has (`kernels.brought`)."""
    entries = {product.variant: variant(product.variant) for product in products(study)}
    return [entry for entry in entries.values() if entry.is_call]


def builds(study: "Study") -> list[Build]:
    """Return every build that a study needs, without repeats.

    The last are `INSTRUMENTS`, which every measurement needs.
    """
    return [*builds_of(products(study)), *INSTRUMENTS]


def builds_of(wanted: Iterable[Product]) -> list[Build]:
    """Return every build that these products need, without repeats."""
    found = (build_for(p.variant, p.shape, p.block_size, p.dtype) for p in wanted)
    return list(dict.fromkeys(build for build in found if build))


def _within_limits(study: "Study", product: Product) -> bool:
    """Tell whether a study plans this size with this block size (`block_size_limits`)."""
    return all(
        product.shape.largest <= limit.largest_size
        for limit in study.block_size_limits
        if limit.block_size == product.block_size
    )
