from kernels.catalog.entries import VARIANTS
from kernels.catalog.product import Product
from kernels.products.shape import Shape


def product_of(name, shape, block=None, dtype="float32"):
    """Return a product; `block` is a block size or the number of a tile shape."""
    known = VARIANTS[name].block_size(block) if name in VARIANTS else block
    return Product(name, dtype, Shape.parse(str(shape)), known)


def fmas_of_tiles(product):
    """Return the number of FMAs of whole tiles, which the host executes also outside of C."""
    shape, (rows, columns, _) = product.shape, product.tile
    tiles = shape.batch * -(-shape.m // rows) * -(-shape.n // columns)
    return tiles * rows * columns * shape.k
