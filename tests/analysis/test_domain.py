"""Verdicts on the interval of a speedup."""

import math

import pytest

from analysis.domain import verdict

NAN = math.nan


@pytest.mark.parametrize(
    ("speedup", "low", "high", "word"),
    [
        (2.0, 1.5, 2.5, "faster"),
        (0.5, 0.4, 0.6, "slower"),
        (1.1, 0.9, 1.3, "undecided"),
        (1.1, 1.0, 1.3, "undecided"),
        (0.9, 0.8, 1.0, "slower"),
        (3.0, NAN, NAN, "no interval"),
        (NAN, NAN, NAN, "not measured"),
    ],
)
def test_a_speedup_is_faster_or_slower_only_if_its_whole_interval_is(speedup, low, high, word):
    assert verdict(speedup, low, high) == word
