"""The check of a user-supplied kernel on the CPU, within limits of time and memory."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from math import lcm
from time import monotonic

from base.command_line import ABSENT, table
from base.paths import ROOT, shown
from kernels.catalog.product import Product, with_entry
from kernels.catalog.variant import UserKernel
from kernels.cubins.build import build_for
from kernels.host_execution.binding import KernelFault
from kernels.host_execution.check import SEED, check, check_largest, check_mode, sums
from kernels.host_execution.compiler import NotSupported, unchecked_lines
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
_LEAST_EDGES = (16, 16, 30)  # of rectangles

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


def gap(entry: UserKernel) -> NotSupported | None:
    """Return the error of lines that a GPU runs and the check did not, None if there are none."""
    block = (entry.block_sizes or (None,))[0]
    build = build_for(with_entry(entry, entry.dtypes[0], Shape.square(_UNEVEN), block))
    assert build is not None
    source = ROOT / build.source
    lines = unchecked_lines(source.read_text(), build.defines)
    if not lines:
        return None
    named = f"{shown(source)}:{','.join(map(str, lines))}"
    return NotSupported(f"{named}: only GPUs compile these lines; make the CPU compile them too")


def _totals(products: Sequence[Product], counted: Sequence[Product]) -> list[Totals]:
    """Check products and the largest one; return the counts of the others."""
    for product in products:
        _check(product)
    check_mode(products[0], "counted", seed=SEED + 1)  # does it only replay the first product?
    check_largest(products[0])
    return [_count(product) for product in counted]


def _count(product: Product) -> Totals:
    """Check a product and return its counts."""
    try:
        return sums(check_mode(product, "counted"))
    except KernelFault as fault:
        raise KernelFault(f"{fault} (at size {product.shape})") from None


def shapes(entry: UserKernel, block: BlockSize) -> list[Shape]:
    """Return the shapes of a check, the first two with at least five iterations over K.

    The tile divides the first shape. The second shape is odd, and one element larger than whole
    tiles. The third is twice an odd number: vectors of two elements fit, vectors of four do not.
    The fourth is smaller than most tiles, which are then filled in part only. Rectangular and
    batched shapes (`rectangles`) follow if the kernel takes them.
    """
    tile = entry.tile(block)
    width = lcm(*tile)
    size = width * -(-max(_DIVISIBLE, _ITERATIONS * tile[2]) // width)
    least = max(_UNEVEN, 2 * tile[2] + 6)
    odd = size + 1 + (width if size % 2 else 0)
    even = next(n for n in range(least, 8 * least) if n % 4 == 2 and not _divided(n, tile))
    found = [Shape.square(size), Shape.square(odd), Shape.square(even), Shape.square(_SMALL)]
    batch = 3 if entry.shapes == "batched" else 1
    return found if entry.shapes == "square" else [*found, *rectangles(tile, batch)]


def rectangles(tile: tuple[int, int, int], batch: int) -> list[Shape]:
    """Return shapes with three edges and several blocks along each, in different numbers.

    So strides between blocks, axes of the grid and edges cannot be exchanged unnoticed. The tile
    divides the first shape. In each of the others, one other edge is a multiple of four: vectors of
    four elements fit along one matrix and not along another.
    """
    tall, wide, deep = (
        edge * -(-least // edge) for edge, least in zip(tile, _LEAST_EDGES, strict=True)
    )
    whole = _rectangle((2 * tall, 2 * wide, deep), tile, tile)
    above = tall + 1, 2 * wide + 1, deep + 1
    steps = [tuple(4 if edge == other else 0 for edge in range(3)) for other in range(3)]
    return [Shape(batch, *edges) for edges in (whole, *(_rectangle(above, tile, s) for s in steps))]


def _rectangle(least: Sequence[int], tile: Sequence[int], steps: Sequence[int]) -> tuple[int, ...]:
    """Return three edges of at least `least`: multiples of `steps`, or odd where the step is 0."""
    edges: list[int] = []
    for at, (first, step) in enumerate(zip(least, steps, strict=True)):
        edges.append(
            next(
                edge
                for edge in count(first)
                if (edge % step == 0 if step else edge % 2)
                and edge not in edges
                and not (at == 1 and -(-edge // tile[1]) == -(-edges[0] // tile[0]))
            )
        )
    return tuple(edges)


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
