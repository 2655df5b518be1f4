"""Small products: drawn at random, or with the residues of the study's; and their counts.

Each product is computed by host execution, in every build and order of blocks of `check`, which
compares the result with the expected one, and the counts with theory. Kernels without a theory of
their own have closed forms here.
"""

from collections.abc import Callable
from dataclasses import replace
from math import lcm
from pathlib import Path
from random import Random

import numpy as np

from base.errors import StudyError
from base.paths import ROOT
from kernels.catalog.entries import VARIANTS, variant
from kernels.catalog.product import Product
from kernels.catalog.variant import IN_TURN, MAPPED, PREPARED
from kernels.cubins.build import step_build
from kernels.host_execution.binding import Array, Run
from kernels.host_execution.binding import Kernel as Compiled
from kernels.host_execution.check import check, inputs_of, sums
from kernels.host_execution.compiler import BUILDS, build_kernel
from kernels.products.shape import Shape
from kernels.theory.cost import LINE_BYTES, OPERATIONS
from study.config import Study
from study.counting import plan

CONFIG = ROOT / "config.yaml"
SPLIT = "split_parts"  # of sgemm_tensor_tma
_OF_SPLIT = "sgemm_tensor_tma"
KERNELS = [
    *(n for n, e in VARIANTS.items() if e.kernel_name and e.flow in (IN_TURN, PREPARED, MAPPED)),
    SPLIT,
]
Accesses = tuple[int, int, int, int]  # in the order of `OPERATIONS`


def draw(kernel: str, number: int) -> Product:
    """Return case `number` of a kernel."""
    random, name = Random(f"{kernel} {number}"), _OF_SPLIT if kernel == SPLIT else kernel
    entry = variant(name)
    block = random.choice(entry.block_sizes or (None,))
    dtype = random.choice(entry.dtypes)
    rows, columns, steps = Product(name, dtype, Shape.square(1), block).tile
    most = int(min(max(70, 2 * max(rows, columns) + 36), entry.edges[1]))
    if entry.shapes == "square":
        return Product(name, dtype, Shape.square(random.randint(1, most)), block)
    batch = random.randint(1, 3) if entry.shapes == "batched" else 1
    k = random.randint(1, 5 * steps + 10)
    m, n = random.randint(1, most), random.randint(1, most)
    return Product(name, dtype, Shape(batch, m, n, k), block)


def alike(product: Product) -> Product:
    """Return a small product with a whole tile and the same residues of each edge.

    The residues are with respect to the tile, to two iterations over K, and to a cache line. A
    batch is cut to two products.
    """
    rows, columns, steps = product.tile
    line = LINE_BYTES // 4
    periods = [rows, lcm(columns, line), lcm(2 * steps, line)]
    if product.entry.shapes == "square":
        periods = [lcm(*periods)] * 3
    shape = product.shape
    edges = zip((shape.m, shape.n, shape.k), periods, strict=True)
    small = [edge % period + period for edge, period in edges]
    return replace(product, shape=Shape(min(shape.batch, 2), *small))


def _tiles(edge: int, tile: int) -> int:
    return -(-edge // tile)


def _mapped(shape: Shape) -> Accesses:
    """Each of eight blocks loads B, and some rows of A, in vectors of four elements."""
    n, rows = shape.n, _tiles(shape.n, 32) * 4
    own = [max(0, min(rows, n - first)) for first in range(0, 8 * rows, rows)]
    vectors = sum(each * n // 4 + each * n % 4 for each in own)
    threads = sum(_tiles(each, 2) for each in own) * _tiles(n, 4)
    return (
        vectors + 8 * (n * n // 4 + n * n % 4),
        vectors,
        threads * n * 6 + vectors,
        sum(_tiles(each * n, 4) for each in own) + 8 * _tiles(n * n, 4) + n * n,
    )


def _images(shape: Shape) -> Accesses:
    """On the host, threads copy what the bulk copy engine copies on a GPU."""
    steps, tiles = _tiles(shape.k, 64), _tiles(shape.m, 128) * _tiles(shape.n, 128)
    copies = tiles * steps * 2 * (2 * 128 * 64 * 2 + 4 * 128) // 16
    stores = shape.m * (shape.n if shape.n % 2 else shape.n // 2)
    return copies, stores, tiles * _tiles(steps, 2) * 256 * (2 + 16), copies


def _parts(shape: Shape) -> Accesses:
    """The step before `_images`: rows of A in pairs, and columns of B."""
    m, n, k = shape.m, shape.n, shape.k
    steps, chunks = _tiles(k, 64), _tiles(_tiles(k, 64), 4)
    rows, columns = 128 * _tiles(m, 128), 128 * _tiles(n, 128)
    a_threads, b_threads = rows * chunks * 8, columns * chunks * 8
    return (
        m * (k if k % 2 else k // 2) + n * k,
        rows * steps * 65 + columns * steps * 17,
        a_threads * 4 * 8 + b_threads * 8 + columns * steps * 8 * 2,
        a_threads * 4 + b_threads * (1 + 4 * 2),
    )


CLOSED_FORMS: dict[str, Callable[[Shape], Accesses]] = {
    "sgemm_mapped": _mapped,
    _OF_SPLIT: _images,
    SPLIT: _parts,
}


def residues_of(study: Study) -> list[Product]:
    """Return small products with the residues of the study's products that are not run."""
    found = {alike(one) for counting in plan(study, None) for one in counting.predicted}
    return sorted(found, key=lambda one: (one.variant, one.shape))


def _split(product: Product, folder: Path) -> Run:
    """Run `split_parts` on the operands of a product."""
    build, step = step_build(product), product.kernel and product.kernel.device_step
    assert build
    assert step
    (m, n, k), source = (product.shape.m, product.shape.n, product.shape.k), ROOT / build.source
    library = build_kernel(SPLIT, source, build.defines, "counted", folder)
    grid = (step.blocks(m, k) + step.blocks(n, k), 1, 1)
    images = np.empty(product.prepared_bytes // 4, np.float32)
    arguments: list[Array | int] = [*inputs_of(product), images, m, n, k]
    return Compiled(library, source, SPLIT, True).run(grid, (step.threads, 1), arguments)


def fault(kernel: str, product: Product, folder: Path = BUILDS) -> str:
    """Return the fault of a product, or of its counts; empty if there is none."""
    try:
        run = _split(product, folder) if kernel == SPLIT else check(product, folder=folder)
    except StudyError as error:
        return str(error)
    if kernel not in CLOSED_FORMS:
        return ""
    totals, expected = sums(run), CLOSED_FORMS[kernel](product.shape)
    found = tuple(totals[operation].accesses for operation in OPERATIONS)
    return "" if found == expected else f"counted {found}, expected {expected}"
