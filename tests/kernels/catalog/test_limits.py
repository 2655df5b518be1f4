"""Limits of a GPU: a launch beyond a limit is refused with demand and limit."""

from dataclasses import replace

import pytest

from kernels.catalog.entries import VARIANTS
from kernels.catalog.limits import DeviceLimits, not_launchable
from kernels.catalog.product import Product
from kernels.products.shape import MOST_ELEMENTS, Shape
from tests.support.products import product_of

GRID_MOST = (2**31 - 1, 65535, 65535)
GPU = DeviceLimits(1024, 49152, 65536, *GRID_MOST, 32, 80 * 2**30, 232448, (9, 0))
THREADS = "max_threads_per_block", "{} threads per block, {{}} allowed"
SHARED = "max_shared_bytes_per_block_optin", "{} bytes of shared memory per block, {{}} allowed"
REGISTERS = "max_registers_per_block", "{} registers per block, {{}} allowed"
MEMORY = "memory_bytes", "{} bytes for the matrices, the GPU has {{}}"
GRID = {axis: (f"max_grid_{axis}", f"{{}} blocks along {axis}, {{{{}}}} allowed") for axis in "xyz"}


@pytest.mark.parametrize(
    # Variant, shape, B; registers per thread, static shared bytes; the limit, the demand.
    ("name", "shape", "block", "used", "limit", "need"),
    [
        *((f"buffered_{edge}", 1025, None, (0, 0), THREADS, 1025) for edge in ("row", "column")),
        ("block", 64, 7, (0, 0), THREADS, 49),
        ("block_unroll4", 64, 8, (0, 0), THREADS, 16),
        ("block_unroll8", 64, 24, (0, 0), THREADS, 72),
        ("register_tile", 8, None, (0, 0), THREADS, 256),
        ("buffered_column", 1000, None, (0, 96), SHARED, 4096),
        ("block", 64, 32, (0, 8192), SHARED, 8192),
        ("sgemm_tensor", 1, None, (255, 0), SHARED, 141440),
        # 65 registers per thread are allocated as 72; 36 threads take two whole warps.
        ("block", 64, 32, (65, 0), REGISTERS, 73728),
        ("block", 64, 6, (8, 0), REGISTERS, 512),
        ("naive", 100, 3, (0, 0), GRID["x"], 34),
        ("naive", 100, 3, (0, 0), GRID["y"], 34),
        ("buffered_row", 100, None, (0, 0), GRID["x"], 100),
        ("mm_tile", "100x7x30", 8, (0, 0), GRID["x"], 4),
        ("mm_tile", "100x7x30", 8, (0, 0), GRID["y"], 13),
        ("bmm_naive", "70x1x1x1", 8, (0, 0), GRID["z"], 70),
        ("block_padded", 17, 16, (0, 0), GRID["y"], 2),
        ("naive", 100, 4, (0, 0), MEMORY, 120000),
        ("bmm_tile", "3x5x7x11", 8, (0, 0), MEMORY, 4 * 3 * (35 + 77 + 55)),
        ("block_padded", 17, 16, (0, 0), MEMORY, 4 * 3 * 32**2),
    ],
)
def test_a_launch_just_above_a_limit_is_refused_and_the_message_gives_both_numbers(
    name, shape, block, used, limit, need
):
    roomy = replace(GPU, max_threads_per_block=2048, max_registers_per_block=2**20)
    asked = product_of(name, shape, block)
    said = not_launchable(asked, replace(roomy, **{limit[0]: need - 1}), *used)
    assert said == "needs " + limit[1].format(need).format(need - 1)
    assert not_launchable(asked, replace(roomy, **{limit[0]: need}), *used) is None


def test_the_memory_limit_counts_the_bytes_of_the_element_type():
    gpu = replace(GPU, memory_bytes=3 * 4 * 64)
    dtypes = VARIANTS["mm_tile"].dtypes
    said = {dtype: not_launchable(product_of("mm_tile", 8, 8, dtype), gpu) for dtype in dtypes}
    more = "needs 1536 bytes for the matrices, the GPU has 768"
    assert said == {"float32": None, "int32": None, "float64": more}


def test_matrices_so_large_that_an_index_overflows_are_refused():
    def said(name, *edges):
        shape = Shape.square(*edges) if len(edges) == 1 else Shape(*edges)
        return not_launchable(Product(name, "float32", shape, 32), GPU)

    assert MOST_ELEMENTS == 2**31 - 1
    assert said("block", 46340) is None
    text = "needs 2147488281 elements per matrix, 2147483647 allowed by 32-bit indices"
    assert said("block", 46341) == text
    assert said("mm_tile", 1, 1, 1, 2**31 - 1) is None
    assert said("mm_tile", 1, 1, 1, 2**31).startswith("needs 2147483648 elements per matrix")
    assert said("bmm_tile", 2, 46340, 46340, 46340) is None, "the limit applies to each matrix"
    assert said("block_padded", 46340).startswith("needs 2149991424 elements per matrix")


def test_kernels_on_tensor_cores_are_refused_below_their_compute_capability():
    asked = product_of("sgemm_tensor", 64)
    old, new = (replace(GPU, compute_capability=c) for c in ((7, 5), (8, 0)))
    text = "needs compute capability 8.0 for its tensor cores, the GPU has 7.5"
    assert not_launchable(asked, old) == text
    assert not_launchable(asked, new) is None
    assert not_launchable(product_of("block", 64, 32), old) is None
    gpu = replace(GPU, max_registers_per_block=1)  # an unknown register use is no obstacle
    assert not_launchable(product_of("block", 64, 32), gpu) is None


def test_kernels_for_one_architecture_are_refused_on_any_other_capability():
    asked = product_of("sgemm_tensor_tma", 64)
    newer = replace(GPU, compute_capability=(10, 0))
    assert not_launchable(asked, newer) == "needs compute capability 9.0, the GPU has 10.0"
    # Three matrices, and two images of 128 lines and 64 steps with scales.
    small = replace(GPU, memory_bytes=3 * 64 * 64 * 4 + 2 * (2 * 2 * 128 * 64 + 4 * 128))
    assert not_launchable(asked, small) is None
    small = replace(small, memory_bytes=small.memory_bytes - 1)
    assert "bytes for the matrices" in not_launchable(asked, small)
