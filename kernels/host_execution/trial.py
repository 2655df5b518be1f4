"""The check of a user-supplied kernel on the CPU, within limits of time and memory."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import lcm
from time import monotonic

from base.command_line import ABSENT, table
from kernels.catalog.product import Product, with_entry
from kernels.catalog.variant import UserKernel
from kernels.host_execution.binding import KernelFault
from kernels.host_execution.check import check, check_largest, execute, sums
from kernels.host_execution.limited import limited
from kernels.products.shape import Shape
from kernels.theory.cost import OPERATIONS, Total
from kernels.theory.tiles import BlockSize

# Of the whole check, and from the start of Python to the end of the compilation for GPUs: in less
# than 60 s and 2 GiB.
SECONDS, SECONDS_WITH_BUILDS, MEMORY_BYTES = 35.0, 47.0, 3 * 2**29
# Sizes of the counts (about this size and twice this size), and least sizes of the check.
_COUNTED, _DIVISIBLE, _UNEVEN, _SMALL = 64, 64, 70, 3
# A race may first show in a later iteration: double buffers alternate, pipelines have more stages.
_ITERATIONS = 5

Totals = dict[str, Total]
Counted = dict[Product, Totals]


def checked(entry: UserKernel) -> Generator[str, None, Counted]:
    """Check every build of the kernel; yield lines; return the counts at two sizes.

    Two sizes suffice: the accesses of a square product grow as a·N³ + b·N². Raise KernelFault,
    NotSupported, and LimitReached if the check does not end within `SECONDS` and `MEMORY_BYTES`.
    """
    end = monotonic() + SECONDS
    counted: Counted = {}
    for dtype in entry.dtypes:
        for block in entry.block_sizes or (None,):
            products = [with_entry(entry, dtype, shape, block) for shape in shapes(entry, block)]
            width = lcm(*entry.tile(block))
            small = replace(products[0], shape=Shape.square(width * -(-_COUNTED // width)))
            twice = replace(small, shape=Shape.square(2 * small.shape.n))

            work = partial(_totals, products, (small, twice))
            found = limited(work, max(0.0, end - monotonic()), MEMORY_BYTES)
            names = ", ".join(str(product.shape) for product in products)
            build = " ".join(filter(None, [dtype, f"B={block}" if block else ""]))
            how = "bit for bit equal to" if entry.in_order else "within the error bound of"
            yield f"checked on the CPU, {build}: {how} the reference at {names}; no race, in bounds"
            yield from _accesses(entry, small, found[0])
            if dtype == "float32":
                counted[small], counted[twice] = found
    return counted


def _totals(products: Sequence[Product], counted: Sequence[Product]) -> list[Totals]:
    """Check products and the largest one; return the counts of the others."""
    for product in products:
        _check(product)
    check_largest(products[0])
    return [sums(execute(product, "counted")[1]) for product in counted]


def shapes(entry: UserKernel, block: BlockSize) -> list[Shape]:
    """Return the shapes of a check, the first two with at least five iterations over K.

    The tile divides the first shape. The second shape is odd, and one element larger than whole
    tiles. The third is twice an odd number: vectors of two elements fit, vectors of four do not.
    The fourth is smaller than most tiles, which are then filled in part only. Rectangular and
    batched shapes follow if the kernel takes them.
    """
    tile = entry.tile(block)
    width = lcm(*tile)
    size = width * -(-max(_DIVISIBLE, _ITERATIONS * tile[2]) // width)
    least = max(_UNEVEN, 2 * tile[2] + 6)
    odd = size + 1 + (width if size % 2 else 0)
    even = next(n for n in range(least, 8 * least) if n % 4 == 2 and not _divided(n, tile))
    found = [Shape.square(size), Shape.square(odd), Shape.square(even), Shape.square(_SMALL)]
    if entry.shapes != "square":
        found.append(Shape(3 if entry.shapes == "batched" else 1, 17, 33, odd))
    return found


def _divided(size: int, tile: tuple[int, int, int]) -> bool:
    """Return whether an edge of the tile above 2 divides a size."""
    return any(edge > 2 and size % edge == 0 for edge in tile)


def _check(product: Product) -> None:
    try:
        check(product)
    except KernelFault as fault:
        if not product.is_guarded:
            raise
        # The tile divides the first size, and the kernel passed there.
        raise KernelFault(
            f"{fault} (at size {product.shape}, which the tile does not divide: add bounds checks, "
            "at least #if GUARDED)"
        ) from None


def _accesses(entry: UserKernel, product: Product, totals: Mapping[str, Total]) -> list[str]:
    threads = product.launch.threads_per_block * product.launch.blocks
    per_request = "sectors or wavefronts per request"
    rows = [["accesses", "per thread", per_request, "bank conflicts per request"]]
    for operation in OPERATIONS:
        total = totals[operation]
        if not total.accesses:
            continue
        shared = operation.startswith("shared")
        declared = " as declared" if operation in entry.claims else ""
        rows.append(
            [
                f"{operation.replace('_', ' ')}s",
                f"{total.accesses / threads:g}{declared}",
                f"{total.transactions / total.requests:.3g}",
                f"{(total.transactions - total.ideal) / total.requests:.3g}" if shared else ABSENT,
            ]
        )
    return table(rows)
