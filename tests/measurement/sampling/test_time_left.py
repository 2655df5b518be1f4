"""The estimate of the remaining time."""

from functools import partial

import pytest

from kernels.products.shape import Shape
from measurement.sampling.time_left import TimeLeft
from study import cells


def cell(variant="block", n=64, dtype="float32", block=8):
    return cells.cell("gpu0", variant, dtype, Shape.parse(str(n)), block, "pinned")


@pytest.fixture
def estimate():
    return TimeLeft()


def test_first_runs_scale_with_the_flop_of_their_shape(estimate):
    assert estimate.first_runs_s([cell()]) is None
    estimate.add(cell(n=64), 0.5)
    assert estimate.first_runs_s([cell(n=128)]) == 4.0
    assert estimate.first_runs_s([cell(n=128), cell(n=32)]) == 4.0625
    assert estimate.first_runs_s([cell("naive")]) is None
    assert estimate.first_runs_s([cell(), cell("naive")]) is None
    tile = partial(cell, "mm_tile")
    estimate.add(tile("16x32x64"), 0.5)
    assert estimate.first_runs_s([tile("3x16x32x64")]) == 1.5
    assert estimate.first_runs_s([tile("1x32x64")]) == 0.5 / 16
    assert estimate.first_runs_s([tile(32), tile("16x32x64", dtype="int32")]) == 1.0


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
