from kernels.catalog.entries import VARIANTS
from kernels.catalog.product import Product
from kernels.products.shape import Shape


def product_of(name, shape, block=None, dtype="float32"):
    """Return a product; `block` is a block size or the number of a tile shape."""
    known = VARIANTS[name].block_size(block) if name in VARIANTS else block
    return Product(name, dtype, Shape.parse(str(shape)), known)
