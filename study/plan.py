"""The products of a study, and the builds that they need."""

from kernels.catalog.product import Product, products_of
from kernels.catalog.variant import UserCall
from kernels.cubins.build import INSTRUMENTS, Build, builds_for
from kernels.products.shape import Shape
from study.config import Study


def products(study: Study) -> list[Product]:
    """Return every product of a study, without repeats: square matrices first, then `series`."""
    squares = [Shape.square(n) for n in (*study.sizes, *study.holdout_sizes)]
    found = dict.fromkeys(products_of(study.variants, study.dtypes, study.block_sizes, squares))
    for one in study.series:
        shapes = [Shape.parse(text) for text in one.shapes]
        found |= dict.fromkeys(products_of(one.variants, one.dtypes, one.block_sizes, shapes))
    return [product for product in found if _within_limits(study, product)]


def calls(study: Study) -> list[UserCall]:
    """Return the user-supplied calls of a study (`kernels.catalog.user_supplied`)."""
    entries = {product.variant: product.entry for product in products(study)}
    return [entry for entry in entries.values() if isinstance(entry, UserCall)]


def builds(study: Study) -> list[Build]:
    """Return every build that a study needs, without repeats.

    The last are `INSTRUMENTS`, which every measurement needs.
    """
    return [*builds_for(products(study)), *INSTRUMENTS]


def _within_limits(study: Study, product: Product) -> bool:
    """Return whether the study measures this size with this block size (`block_size_limits`)."""
    return all(
        product.shape.largest <= limit.largest_size
        for limit in study.block_size_limits
        if limit.block_size == product.block_size
    )
