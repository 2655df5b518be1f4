"""The products of a study, and the builds that they need."""

from kernels.catalog.product import Product
from kernels.catalog.variant import UserCall
from kernels.cubins.build import INSTRUMENTS, Build, builds_for
from study.config import Study


def products(study: Study) -> list[Product]:
    """Return every product of a study, without repeats: square matrices first, then `series`."""
    return list(dict.fromkeys(product for product, _ in study.placed_products()))


def calls(study: Study) -> list[UserCall]:
    """Return the user-supplied Python functions that a study measures."""
    entries = {product.variant: product.entry for product in products(study)}
    return [entry for entry in entries.values() if isinstance(entry, UserCall)]


def builds(study: Study) -> list[Build]:
    """Return every build that a study needs once; the last ones, `INSTRUMENTS`, serve measuring."""
    return [*builds_for(products(study)), *INSTRUMENTS]
