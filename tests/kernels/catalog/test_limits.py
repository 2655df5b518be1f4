"""Limits of a GPU: a launch beyond a limit is refused with demand and limit."""

from dataclasses import replace

import pytest

from kernels.catalog.entries import VARIANTS
from kernels.catalog.limits import DeviceLimits, not_launchable
from kernels.catalog.product import Product
from kernels.products.elements import ELEMENTS
from kernels.products.shape import MOST_ELEMENTS, Shape
from tests.support.products import product_of

GPU = DeviceLimits(
    max_threads_per_block=1024,
    max_shared_bytes_per_block=49152,
    max_registers_per_block=65536,
    max_grid_x=2**31 - 1,
    max_grid_y=65535,
    max_grid_z=65535,
    warp_size=32,
    memory_bytes=80 * 2**30,
    max_shared_bytes_per_block_optin=232448,
    compute_capability=(9, 0),
)
KERNELS = [
    (name, b)
    for name, entry in VARIANTS.items()
    if entry.kernel_name
    for b in entry.block_sizes or (None,)
]


def used(name, block, dtype):
    """Return registers per thread and static shared memory that a kernel does not exceed."""
    if VARIANTS[name].fixed_blocks:  # whose shared memory is dynamic
        threads = Product(name, dtype, Shape.square(1), block).launch.threads[0]
        return min(255, 65536 // threads), 0
    # Two tiles of the widest elements, one with padded rows; or two stages of both.
    if block is None:
        return 128, 2 * 16 * 4 * 260
    return 32, 2 * ELEMENTS[dtype].bytes * block * (block + 1)


def test_every_block_size_of_the_catalog_fits_a_gpu():
    said = {
        (name, block, dtype): not_launchable(
            Product(name, dtype, Shape.square(100), block),
            GPU,
            *used(name, block, dtype),
        )
        for name, block in KERNELS
        for dtype in VARIANTS[name].dtypes
    }
    assert set(said.values()) == {None}, said


# variant, shape, B, registers per thread, static shared bytes; the limit, the demand as text.
DEMANDS = [
    (
        ("buffered_row", 1025, None, 0, 0),
        "max_threads_per_block",
        "1025 threads per block, {} allowed",
    ),
    (("block", 64, 7, 0, 0), "max_threads_per_block", "49 threads per block, {} allowed"),
    (("block_unroll4", 64, 8, 0, 0), "max_threads_per_block", "16 threads per block, {} allowed"),
    (("block_unroll8", 64, 24, 0, 0), "max_threads_per_block", "72 threads per block, {} allowed"),
    (
        ("register_tile", 8, None, 0, 0),
        "max_threads_per_block",
        "256 threads per block, {} allowed",
    ),
    (
        ("buffered_column", 1000, None, 0, 96),
        "max_shared_bytes_per_block_optin",
        "4096 bytes of shared memory per block, {} allowed",
    ),
    (
        ("block", 64, 32, 0, 8192),
        "max_shared_bytes_per_block_optin",
        "8192 bytes of shared memory per block, {} allowed",
    ),
    (
        ("sgemm_tensor", 1, None, 255, 0),
        "max_shared_bytes_per_block_optin",
        "141440 bytes of shared memory per block, {} allowed",
    ),
    # 65 registers per thread are 72 of each of 1024 threads; 36 threads take two whole warps.
    (("block", 64, 32, 65, 0), "max_registers_per_block", "73728 registers per block, {} allowed"),
    (("block", 64, 6, 8, 0), "max_registers_per_block", "512 registers per block, {} allowed"),
    (("naive", 100, 3, 0, 0), "max_grid_x", "34 blocks along x, {} allowed"),
    (("naive", 100, 3, 0, 0), "max_grid_y", "34 blocks along y, {} allowed"),
    (("buffered_row", 100, None, 0, 0), "max_grid_x", "100 blocks along x, {} allowed"),
    (("mm_tile", "100x7x30", 8, 0, 0), "max_grid_x", "4 blocks along x, {} allowed"),
    (("mm_tile", "100x7x30", 8, 0, 0), "max_grid_y", "13 blocks along y, {} allowed"),
    (("bmm_naive", "70x1x1x1", 8, 0, 0), "max_grid_z", "70 blocks along z, {} allowed"),
    (("block_padded", 17, 16, 0, 0), "max_grid_y", "2 blocks along y, {} allowed"),
    (
        ("naive", 100, 4, 0, 0),
        "memory_bytes",
        "120000 bytes for the matrices, the GPU has {}",
    ),
    (
        ("bmm_tile", "3x5x7x11", 8, 0, 0),
        "memory_bytes",
        f"{4 * 3 * (35 + 77 + 55)} bytes for the matrices, the GPU has {{}}",
    ),
    (
        ("block_padded", 17, 16, 0, 0),
        "memory_bytes",
        f"{4 * 3 * 32**2} bytes for the matrices, the GPU has {{}}",
    ),
]


@pytest.mark.parametrize(("cell", "limit", "text"), DEMANDS)
def test_a_demand_is_refused_just_above_the_limit_with_both_numbers(cell, limit, text):
    need = int(text.split()[0])
    roomy = replace(GPU, max_threads_per_block=2048, max_registers_per_block=2**20)
    name, shape, block, registers, shared = cell
    asked = product_of(name, shape, block)
    tight = replace(roomy, **{limit: need - 1})
    said = not_launchable(asked, tight, registers, shared)
    assert said == "needs " + text.format(need - 1)
    enough = replace(roomy, **{limit: need})
    assert not_launchable(asked, enough, registers, shared) is None


def test_matrices_take_the_memory_of_their_elements():
    gpu = replace(GPU, memory_bytes=3 * 4 * 64)
    said = {dtype: not_launchable(product_of("mm_tile", 8, 8, dtype), gpu) for dtype in ELEMENTS}
    more = "needs 1536 bytes for the matrices, the GPU has 768"
    assert said == {"float32": None, "int32": None, "float64": more}


def test_buffered_kernels_end_at_the_threads_of_a_block():
    for name in ("buffered_row", "buffered_column"):
        assert not_launchable(product_of(name, 1024), GPU) is None
        said = not_launchable(product_of(name, 1025), GPU)
        assert said == "needs 1025 threads per block, 1024 allowed"


def test_matrices_end_where_an_index_overflows():
    def said(name, *edges):
        shape = Shape.square(*edges) if len(edges) == 1 else Shape(*edges)
        return not_launchable(Product(name, "float32", shape, 32), GPU)

    assert MOST_ELEMENTS == 2**31 - 1
    assert said("block", 46340) is None
    text = "needs 2147488281 elements per matrix, 2147483647 allowed by 32-bit indices"
    assert said("block", 46341) == text
    assert said("mm_tile", 1, 1, 1, 2**31 - 1) is None
    assert said("mm_tile", 1, 1, 1, 2**31).startswith("needs 2147483648 elements per matrix")
    assert said("bmm_tile", 2, 46340, 46340, 46340) is None, "each matrix counts on its own"
    assert said("block_padded", 46340).startswith("needs 2149991424 elements per matrix")


def test_tensor_cores_take_a_compute_capability():
    asked = product_of("sgemm_tensor", 64)
    old, new = (replace(GPU, compute_capability=c) for c in ((7, 5), (8, 0)))
    text = "needs compute capability 8.0 for its tensor cores, the GPU has 7.5"
    assert not_launchable(asked, old) == text
    assert not_launchable(asked, new) is None
    assert not_launchable(product_of("block", 64, 32), old) is None


def test_an_unknown_register_use_is_no_obstacle():
    gpu = replace(GPU, max_registers_per_block=1)
    assert not_launchable(product_of("block", 64, 32), gpu) is None
