"""Cells of a study: plan, matrices, rows and text."""

import math

import pytest

from kernels.catalog.entries import VARIANTS
from kernels.products.shape import Shape
from kernels.theory.tiles import TILES
from measurement.recording.schema import CELL
from study import cells as planning
from study.cells import cpu_cells, gpu_cells, problems
from tests.support.studies import study

STUDY = {
    "dtypes": ["float32"],
    "variants": ["block_unroll4", "buffered_row"],
    "sizes": [64, 8],
    "holdout_sizes": [16],
    "block_sizes": [2, 4, 8],
    "host_memory": ["pinned", "pageable"],
    "cpu": {
        "variants": ["blocked", "packed", "naive"],
        "sizes": [32, 8],
        "size_limits": [{"variant": "naive", "largest_size": 31}],
        "block_sizes": [4, 16],
        "threads": [1, "all"],
    },
}


def cells_of(device, products):
    return {
        planning.cell(device, name, dtype, Shape.parse(shape), block, memory)
        for name, dtype, shape, block in products
        for memory in ("pinned", "pageable")
    }


def test_all_existing_combinations_are_planned_as_cells_small_sizes_first():
    cells = gpu_cells(study(STUDY), "gpu1")
    assert [c.shape.n for c in cells] == [8] * 6 + [16] * 6 + [64] * 6
    products = [
        (variant, "float32", n, block)
        for variant, block in (("block_unroll4", 4), ("block_unroll4", 8), ("buffered_row", None))
        for n in (8, 16, 64)
    ]
    assert set(cells) == cells_of("gpu1", products)


def test_products_on_tensor_cores_have_their_own_error_bound():
    def multiple(device, name, k):
        return planning.cell(device, name, "float32", Shape(1, k, k, k)).bound_multiple

    assert multiple("gpu0", "block", 4096) == multiple("cpu", "naive", 64) == 1
    assert multiple("cpu", "blas", 64) == 1, "is in no catalog of kernels"
    assert multiple("gpu0", "sgemm_tensor", 64) == 161 / 64
    assert multiple("gpu0", "sgemm_tensor", 4096) == 224 / 4096


@pytest.mark.parametrize(("name", "digits"), [("tf32", 10), ("bf16", 8), ("fp16", 11)])
def test_products_of_rounded_operands_have_an_error_bound_for_both_roundings(name, digits):
    entry, unit = VARIANTS[f"cublas_{name}"], 2.0**-digits
    assert entry.roundoffs(4096) - 2 * 4096 == math.ceil((2 * unit + unit**2) * 2**24)
    assert VARIANTS["cublas_default"].roundoffs(4096) == 4096


def test_cpu_cells_use_one_thread_and_if_the_variant_is_parallel_all_threads():
    cells = cpu_cells(study(STUDY), 3)
    assert [c.shape.n for c in cells] == [8] * 5 + [32] * 4
    assert {(c.variant, c.shape.n, c.block_size, c.threads) for c in cells} == {
        ("naive", 8, None, 1),  # stops before 32
    }.union(
        (("packed", n, None, threads) for n in (8, 32) for threads in (1, 3)),
        (("blocked", n, block, 1) for n in (8, 32) for block in (4, 16)),
    )
    assert {c.threads for c in cpu_cells(study(STUDY), 1)} == {1}  # All of one core is one
    assert len(cpu_cells(study(STUDY), 1)) == 7


def test_on_the_cpu_only_libraries_are_measured_at_shapes_that_are_not_square():
    shaped = study({**STUDY, "cpu": {**STUDY["cpu"], "variants": ["packed", "blas"]}})
    shaped.cpu.shapes.append("64x8x2")
    others = [c for c in cpu_cells(shaped, 3) if not c.shape.is_square]
    assert [(c.variant, str(c.shape), c.threads) for c in others] == [
        ("blas", "64x8x2", 1),
        ("blas", "64x8x2", 3),
    ]


@pytest.mark.parametrize(
    ("threads", "most", "planned"),
    [
        ([1, 2, 4, 8, "all"], 6, {1, 2, 4, 6}),
        ([1, 2, 4, 8, "all"], 4, {1, 2, 4}),
        ([2, 8], 4, {2}),  # without "all"
        ([8], 4, {4}),  # a host with fewer threads than any count
    ],
)
def test_thread_counts_above_those_of_the_host_are_omitted(threads, most, planned):
    counts = STUDY | {"cpu": STUDY["cpu"] | {"threads": threads}}
    cells = cpu_cells(study(counts), most)
    assert {c.threads for c in cells if c.variant == "packed"} == planned
    assert {c.threads for c in cells if c.variant == "naive"} == {1}


def test_size_limits_apply_to_some_threads_but_never_to_all_threads():
    limits = [{"threads": count, "largest_size": 16} for count in (2, 4)]
    cpu = {**STUDY["cpu"], "variants": ["blas"], "sizes": [16, 17], "shapes": ["512x4x2", "9x9x99"]}
    limited = study(STUDY | {"cpu": cpu | {"threads": [1, 2, "all"], "size_limits": limits}})
    cells = [(str(one.shape), one.threads) for one in cpu_cells(limited, 4)]
    assert {shape for shape, threads in cells if threads == 2} == {"16", "512x4x2"}
    assert {shape for shape, threads in cells if threads == 4} == {"16", "17", "512x4x2", "9x9x99"}
    assert len(cells) == 4 + 4 + 2


def test_matrices_are_also_planned_for_padded_operands():
    cells = [
        planning.cell("gpu0", "block_padded", "float32", Shape.square(10), 8, "pinned"),
        planning.cell("gpu0", "tile_transposed_b", "float32", Shape.square(10), 16, "pinned"),
        planning.cell("gpu0", "bmm_tile", "int32", Shape.parse("2x3x5x4"), 8, "pinned"),
        planning.cell("cpu", "blocked", "float32", Shape.square(3), 8),
    ]
    found = problems(cells)
    assert len(found) == len(set(found)) == 4
    wanted = [("float32", 10), ("float32", 16), ("int32", "2x3x5x4"), ("float32", 3)]
    assert set(found) == {(dtype, Shape.parse(shape)) for dtype, shape in wanted}


@pytest.mark.parametrize("device", ["gpu0", planning.CPU])
def test_a_cell_becomes_a_row_that_has_the_number_of_its_tile_shape(device):
    name, block = ("sgemm_top", TILES[0]) if device == "gpu0" else ("blocked", TILES[0].number)
    one = planning.cell(device, name, "float32", Shape.parse("2x3x4x5"), block, "pinned", 2)
    row = one.row()
    assert list(row) == CELL
    assert row["block_size"] == TILES[0].number
    assert planning.Cell.of(row) == one
    assert str(one).endswith(" pinned 2 threads")
