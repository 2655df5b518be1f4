"""Progress lines."""

import io

import pytest

from base import progress
from base.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """A clock that is set by its only element."""
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_at_most_one_line_every_two_seconds(clock):
    stream = io.StringIO()
    shown = Progress("gpu0: checking", 40, stream=stream)
    shown.show("block N=64", 0, lambda: None)
    clock[0] += 1.9
    shown.show("block N=64", 5, lambda: pytest.fail("needless estimate"))
    clock[0] += 0.2
    shown.show("block N=128", 7, lambda: 61.9)
    clock[0] += 120
    shown.end()
    assert stream.getvalue().splitlines() == [
        "gpu0: checking: 0/40 cells · block N=64",
        "gpu0: checking: 7/40 cells, at most 1:01 left · block N=128",
        "gpu0: checking: 40/40 cells in 2:02",
    ]


def test_on_a_terminal_the_line_is_rewritten_in_place(clock):
    stream = Terminal()
    shown = Progress("cpu", 2, stream=stream)
    shown.show("block N=64", 0, lambda: 5.0)
    shown.end()
    assert stream.getvalue() == (
        "\r\x1b[2Kcpu: 0/2 cells, at most 0:05 left · block N=64\r\x1b[2Kcpu: 2/2 cells in 0:00\n"
    )
