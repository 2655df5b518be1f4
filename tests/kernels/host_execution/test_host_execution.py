"""The catalog's kernels on the host: bit for bit right, and counted as theory says."""

import pytest

from base.errors import StudyError
from kernels.catalog import geometry
from kernels.catalog.entries import VARIANTS
from kernels.catalog.variant import IN_TURN
from kernels.cubins.build import build_for
from kernels.host_execution.check import check, execute, expected_product, predict, sums
from kernels.theory.tiles import STREAM_K_TILES, number_of
from tests.support import for_test_all
from tests.support.products import product_of

pytestmark = pytest.mark.slow

# Powers of two, their neighbours, odd and even multiples of four and eight.
BLOCKS = (None, 1, 3, 8, 12, 16, 17, 32)
OFTEN = (None, 3, 32, 32016)  # `make test` runs one odd and one even block size
# Kernels of several seconds, of which `make test` runs others of the same family.
SLOW = {"register_tile", "register_tile_async", "register_tile_double_buffered", "sgemm_tensor"}
# Other types than float32 have one block size here, and the largest one in `test_residues`.
KERNELS = [
    (name, block, dtype)
    for name, entry in VARIANTS.items()
    if entry.kernel_name and entry.flow == IN_TURN
    for block in entry.block_sizes or (None,)
    if block in BLOCKS or entry.fixed_blocks
    for dtype in entry.dtypes
    if dtype == "float32" or block == 8
]
CASES = [
    pytest.param(*case, marks=[] if is_often and case[0] not in SLOW else pytest.mark.exhaustive)
    for case in KERNELS
    for is_often in [number_of(case[1]) in OFTEN or case[2] != "float32"]
]
SIZES = (17, 70, 96)  # of a few block sizes; the others have one exact and one guarded size
FEW_BLOCKS = (8, 16, 32)
SHAPES = {
    "single": ["32x64x96", "17x33x65", "1x512x3"],
    "batched": ["2x32x64x96", "17x33x65", "3x17x33x65", "3x1x512x3"],
}


def shapes_of(name, block):
    """Return the shapes for exact and guarded builds; more for the few block sizes."""
    entry = VARIANTS[name]
    if entry.fixed_blocks:  # whole tiles; rows of C that begin at 16 bytes, and others
        rows, columns, step = entry.tile(block)
        return (f"{rows}x{4 * step}x{columns}", "17x33x65", "68x20x36")
    if entry.shapes != "square":
        return SHAPES[entry.shapes]
    if entry.tensor_cores:  # loads of four elements if they divide N, else of one
        return (128, 134, 20)
    if block in FEW_BLOCKS or entry.family == "buffered":
        return SIZES
    width = max(entry.tile(block))
    if width > 32:  # one whole block, one in part outside, and several in part outside
        return (width, 17, width + 6)
    return (width * -(-20 // width), next(n for n in (17, 23) if n % width or width == 1))


def counted(product, folder):
    """Run `check` for the counted build only."""
    c, run = execute(product, "counted", folder=folder)
    assert c.tobytes() == expected_product(product, False, folder).tobytes(), product
    assert sums(run) == predict(product), product
    return run


@pytest.mark.parametrize(("name", "block", "dtype"), CASES)
def test_products_on_the_host_are_exact_and_counts_equal_theory(host_builds, name, block, dtype):
    # Optimised builds of one block size and type suffice.
    is_whole = number_of(block) in (None, 32, 32016) and dtype == "float32"
    run_builds = check if is_whole else counted
    for shape in shapes_of(name, block):
        one = product_of(name, shape, block, dtype)
        run = run_builds(one, folder=host_builds)
        # There was something to compare.
        totals, elements = sums(run), one.operands.c_elements
        stores = totals["global_store"]
        vector = 4 if stores.accesses < elements else 1
        assert stores.accesses * vector == elements
        assert totals["global_load"].transactions >= totals["global_load"].requests > 0


@pytest.mark.parametrize(
    ("name", "shape", "block"),
    [
        *(("sgemm_mapped", n, None) for n in (1, 3, 4, 16, 17, 33, 64, 127, 128)),
        # Exact and guarded; C with rows of odd and even length; one block and many tiles.
        ("sgemm_tensor_tma", "17x33x65", None),
        for_test_all("sgemm_tensor_tma", "128x192x256", None),
        for_test_all("sgemm_tensor_tma", "130x36x260", None),
        # Exact; rows copied by words and by pairs of words; padded rows; three tiles, of which two
        # blocks share one.
        ("sgemm_stream_k", "128x64x192", STREAM_K_TILES[0]),
        ("sgemm_stream_k", "17x33x65", STREAM_K_TILES[-1]),
        ("sgemm_stream_k", "90x34x66", STREAM_K_TILES[3]),
        for_test_all("sgemm_stream_k", "17x33x901", STREAM_K_TILES[-1]),
        ("sgemm_stream_k", "300x66x192", STREAM_K_TILES[0]),
    ],
)
def test_kernels_without_theory_give_correct_products(host_builds, monkeypatch, name, shape, block):
    monkeypatch.setattr(geometry, "_MULTIPROCESSORS", 2)
    assert check(product_of(name, shape, block), folder=host_builds).counts


def test_both_builds_of_every_kernel_exact_and_guarded_are_run():
    for name, block, dtype in KERNELS:
        builds = {
            build_for(product_of(name, shape, block, dtype)) for shape in shapes_of(name, block)
        }
        either = max(VARIANTS[name].tile(block)) > 1 and name != "block_padded"
        assert len(builds) == 1 + either, (name, block)


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (
            ("blok", 16, 4),
            "variant 'blok': not in the catalog; did you mean block[?] use one of naive, ",
        ),
        (("block", 16, 33), r"block: block size 33 is not available; use 1, 2, 3, .*, 32$"),
        (("block", 16, None), "block: block size missing; use 1, "),
        (("buffered_row", 16, 4), "buffered_row: has no block size; remove 4"),
        (("buffered_row", 1025, None), "buffered_row at size 1025: needs 1025 threads per block, "),
        (("block", 16, 8, "int32"), "block: no int32 version; use float32"),
        (("block", "17x33x65", 8), "block at size 17x33x65: supports square products only"),
        (("mm_tile", "3x17x33x65", 8), "mm_tile at size 3x17x33x65: supports single products only"),
        (("cublas_sgemm", 16, None), "cublas_sgemm: has no source to execute on the host"),
        (("sgemm_mapped", 16, None), "sgemm_mapped: has no theory of its memory accesses; use"),
    ],
)
def test_a_kernel_that_the_host_cannot_execute_is_refused(cell, message):
    with pytest.raises(StudyError, match=f"^{message}"):
        predict(product_of(*cell))
