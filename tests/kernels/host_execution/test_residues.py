"""Counts by closed forms; products with the residues of the study's have the counts of theory.

Each product is computed by host execution, in every build and order of blocks of `check`, which
compares the result with the expected one, and the counts with theory. Kernels without a theory of
their own have closed forms here.
"""

from dataclasses import replace
from math import lcm

import numpy as np
import pytest

from base.errors import StudyError
from base.paths import ROOT
from kernels.cubins.build import step_build
from kernels.host_execution.binding import Kernel as Compiled
from kernels.host_execution.check import check, inputs_of, sums
from kernels.host_execution.compiler import build_kernel
from kernels.products.shape import Shape
from kernels.theory.cost import LINE_BYTES, OPERATIONS
from study.config import load
from study.counting import plan
from tests.support.products import product_of

SPLIT, TENSOR_TMA = "split_parts", "sgemm_tensor_tma"  # the first prepares operands of the second


def alike(product):
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


def _tiles(edge, tile):
    return -(-edge // tile)


def _mapped(shape):
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


def _images(shape):
    """On the host, threads copy what the bulk copy engine copies on a GPU."""
    steps, tiles = _tiles(shape.k, 64), _tiles(shape.m, 128) * _tiles(shape.n, 128)
    copies = tiles * steps * 2 * (2 * 128 * 64 * 2 + 4 * 128) // 16
    stores = shape.m * (shape.n if shape.n % 2 else shape.n // 2)
    return copies, stores, tiles * _tiles(steps, 2) * 256 * (2 + 16), copies


def _parts(shape):
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


CLOSED_FORMS = {"sgemm_mapped": _mapped, TENSOR_TMA: _images, SPLIT: _parts}


def _split(product, folder):
    """Run `split_parts` on the operands of a product."""
    build, step = step_build(product), product.kernel and product.kernel.device_step
    (m, n, k), source = (product.shape.m, product.shape.n, product.shape.k), ROOT / build.source
    library = build_kernel(SPLIT, source, build.defines, "counted", folder)
    grid = (step.blocks(m, k) + step.blocks(n, k), 1, 1)
    images = np.empty(product.prepared_bytes // 4, np.float32)
    arguments = [*inputs_of(product), images, m, n, k]
    return Compiled(library, source, SPLIT, True).run(grid, (step.threads, 1), arguments)


def fault(kernel, product, folder):
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "shape"),
    [("sgemm_mapped", 33), *((name, "17x33x65") for name in (TENSOR_TMA, SPLIT))],
)
def test_theoretical_counts_equal_closed_forms(host_builds, kernel, shape):
    name = TENSOR_TMA if kernel == SPLIT else kernel
    assert fault(kernel, product_of(name, shape), host_builds) == ""


@pytest.mark.parametrize(
    ("name", "shape", "block", "small"),
    [
        ("block", 4001, 32, "97"),  # of 64: two iterations
        ("naive", 1000, 8, "40"),  # of a cache line
        ("bmm_tile", "16x640x320x1000", 32, "2x32x64x40"),
        ("sgemm_top", 3000, 32016, "56x184x56"),
    ],
)
def test_a_small_product_is_chosen_with_the_residues_of_a_large_one(name, shape, block, small):
    assert str(alike(product_of(name, shape, block)).shape) == small


@pytest.mark.exhaustive
def test_counts_equal_theory_for_products_with_the_residues_of_the_study(host_builds):
    study = load(ROOT / "config.yaml").study
    products = {alike(one) for counting in plan(study, None) for one in counting.predicted}
    faults = {str(one): fault(one.variant, one, host_builds) for one in products}
    assert {name: text for name, text in faults.items() if text} == {}
