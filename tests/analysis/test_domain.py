"""Verdicts: what the interval of a gain says."""

import math

import pytest

from analysis.domain import step_verdict, verdict

NAN = math.nan


@pytest.mark.parametrize(
    ("gain", "low", "high", "word", "of_step"),
    [
        (2.0, 1.5, 2.5, "gain", "pays"),
        (0.5, 0.4, 0.6, "loss", "does not pay"),
        (1.1, 0.9, 1.3, "undecided", "undecided"),
        (1.1, 1.0, 1.3, "undecided", "undecided"),
        (0.9, 0.8, 1.0, "loss", "does not pay"),
        (3.0, NAN, NAN, "no interval", "no interval"),
        (NAN, NAN, NAN, "not measured", "not measured"),
    ],
)
def test_verdict_is_on_the_whole_interval(gain, low, high, word, of_step):
    assert verdict(gain, low, high) == word
    assert step_verdict(gain, low, high) == of_step
