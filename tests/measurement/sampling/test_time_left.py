"""The estimate of the remaining time."""

import pytest

from kernels.products.shape import Shape
from measurement.sampling.time_left import TimeLeft
from study import cells


def cell(variant="block", n=64, block=8):
    return product(Shape.square(n), variant, block=block)


def product(shape, variant="mm_tile", dtype="float32", block=8):
    return cells.cell("gpu0", variant, dtype, Shape.parse(str(shape)), block, "pinned")


@pytest.fixture
def estimate():
    return TimeLeft()


def test_first_runs_scale_with_the_cube_of_n(estimate):
    assert estimate.first_runs_s([cell()]) is None
    estimate.add(cell(n=64), 0.5)
    assert estimate.first_runs_s([cell(n=128)]) == 4.0
    assert estimate.first_runs_s([cell(n=128), cell(n=32)]) == 4.0625
    assert estimate.first_runs_s([cell("naive")]) is None
    assert estimate.first_runs_s([cell(), cell("naive")]) is None


def test_first_runs_of_any_shape_scale_with_their_flop(estimate):
    estimate.add(product("16x32x64"), 0.5)
    assert estimate.first_runs_s([product("3x16x32x64")]) == 1.5
    assert estimate.first_runs_s([product("1x32x64")]) == 0.5 / 16
    assert estimate.first_runs_s([product(32), product("16x32x64", dtype="int32")]) == 1.0


def test_first_runs_follow_the_same_block_size_then_the_nearest_size(estimate):
    estimate.add(cell(n=64, block=8), 1.0)
    estimate.add(cell(n=32, block=8), 0.25)
    estimate.add(cell(n=128, block=4), 3.0)
    assert estimate.first_runs_s([cell(n=128, block=8)]) == 8.0
    assert estimate.first_runs_s([cell(n=128, block=16)]) == 3.0


def test_remaining_runs_take_as_long_as_runs_so_far(estimate):
    estimate.add(cell(), 0.1)
    estimate.add(cell("naive"), 0.001)
    assert estimate.left_s({cell(): 3, cell("naive"): 60}) == pytest.approx(0.36)
    assert estimate.left_s({cell("buffered_row"): 5}) == 0, "unknown"
    assert estimate.left_s({}) == 0
