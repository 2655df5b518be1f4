"""Progress: few lines, right numbers; and the estimate of the time left."""

import io

import pytest

from base import progress
from base.progress import Progress
from kernels.products.shape import Shape
from measurement.sampling.time_left import TimeLeft
from study import cells


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still; add to its only element."""
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def cell(variant="block", n=64, block=8):
    return product(Shape.square(n), variant, block=block)


def product(shape, variant="mm_tile", dtype="float32", block=8):
    return cells.cell("gpu0", variant, dtype, Shape.parse(str(shape)), block, "pinned")


def test_a_line_every_two_seconds_tells_what_how_far_and_how_long(clock):
    stream = io.StringIO()
    shown = Progress("gpu0: checking", 40, stream=stream)
    shown.show(cell(), 0, lambda: None)
    clock[0] += 1.9
    shown.show(cell(), 5, lambda: pytest.fail("asked for an estimate that is not shown"))
    clock[0] += 0.2
    shown.show(cell(n=128), 7, lambda: 61.9)
    clock[0] += 120
    shown.end()
    assert stream.getvalue().splitlines() == [
        "gpu0: checking: 0/40 cells · gpu0 block B=8 N=64 pinned",
        "gpu0: checking: 7/40 cells, at most 1:01 left · gpu0 block B=8 N=128 pinned",
        "gpu0: checking: 40/40 cells in 2:02",
    ]


def test_on_a_terminal_the_line_is_rewritten_in_place(clock):
    stream = Terminal()
    shown = Progress("cpu", 2, stream=stream)
    shown.show(cell(), 0, lambda: 5.0)
    shown.end()
    assert stream.getvalue() == (
        "\r\x1b[2Kcpu: 0/2 cells, at most 0:05 left · gpu0 block B=8 N=64 pinned"
        "\r\x1b[2Kcpu: 2/2 cells in 0:00\n"
    )


@pytest.fixture
def estimate():
    return TimeLeft()


def test_first_passes_take_the_cube_of_the_order(estimate):
    assert estimate.first_passes_s([cell()]) is None
    estimate.saw(cell(n=64), 0.5)
    assert estimate.first_passes_s([cell(n=128)]) == 4.0
    assert estimate.first_passes_s([cell(n=128), cell(n=32)]) == 4.0625
    assert estimate.first_passes_s([cell("naive")]) is None
    assert estimate.first_passes_s([cell(), cell("naive")]) is None


def test_first_passes_of_any_shape_take_their_share_of_the_work(estimate):
    estimate.saw(product("16x32x64"), 0.5)
    assert estimate.first_passes_s([product("3x16x32x64")]) == 1.5
    assert estimate.first_passes_s([product("1x32x64")]) == 0.5 / 16
    assert estimate.first_passes_s([product(32), product("16x32x64", dtype="int32")]) == 1.0


def test_first_passes_are_like_those_of_the_same_block_size_then_of_the_nearest_order(estimate):
    estimate.saw(cell(n=64, block=8), 1.0)
    estimate.saw(cell(n=32, block=8), 0.25)
    estimate.saw(cell(n=128, block=4), 3.0)
    assert estimate.first_passes_s([cell(n=128, block=8)]) == 8.0
    assert estimate.first_passes_s([cell(n=128, block=16)]) == 3.0


def test_what_is_left_takes_as_long_as_the_passes_seen(estimate):
    estimate.saw(cell(), 0.1)
    estimate.saw(cell("naive"), 0.001)
    assert estimate.left_s({cell(): 3, cell("naive"): 60}) == pytest.approx(0.36)
    assert estimate.left_s({cell("buffered_row"): 5}) == 0, "not seen yet"
    assert estimate.left_s({}) == 0
