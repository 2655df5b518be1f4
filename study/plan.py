"""What a study asks of the catalog: which variants on which matrices, and the cubins for them."""

from collections.abc import Iterable

from kernels.catalog.entries import variant
from kernels.catalog.product import Product, products_of
from kernels.catalog.variant import Variant
from kernels.cubins.build import INSTRUMENTS, Build, build_for
from kernels.products.shape import Shape
from study.config import Study


def products(study: Study) -> list[Product]:
    """Return every product of a study, without repeats.

    Those of its square matrices come first, then those of its `series`.
    """
    squares = [Shape.square(n) for n in (*study.sizes, *study.holdout_sizes)]
    found = dict.fromkeys(products_of(study.variants, study.dtypes, study.block_sizes, squares))
    for one in study.series:
        shapes = [Shape.parse(text) for text in one.shapes]
        found |= dict.fromkeys(products_of(one.variants, one.dtypes, one.block_sizes, shapes))
    return [product for product in found if _within_limits(study, product)]


def calls(study: Study) -> list[Variant]:
    """Return the calls from outside of the catalog that a study has (`kernels.catalog.user_supplied`)."""
    entries = {product.variant: variant(product.variant) for product in products(study)}
    return [entry for entry in entries.values() if entry.is_call]


def builds(study: Study) -> list[Build]:
    """Return every build that a study needs, without repeats.

    The last are `INSTRUMENTS`, which every measurement needs.
    """
    return [*builds_of(products(study)), *INSTRUMENTS]


def builds_of(wanted: Iterable[Product]) -> list[Build]:
    """Return every build that these products need, without repeats."""
    found = (build_for(p.variant, p.shape, p.block_size, p.dtype) for p in wanted)
    return list(dict.fromkeys(build for build in found if build))


def _within_limits(study: Study, product: Product) -> bool:
    """Tell whether a study plans this size with this block size (`block_size_limits`)."""
    return all(
        product.shape.largest <= limit.largest_size
        for limit in study.block_size_limits
        if limit.block_size == product.block_size
    )
