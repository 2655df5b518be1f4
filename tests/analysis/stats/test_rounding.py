"""Half a unit of the last printed digit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.stats.rounding import half_unit


@pytest.mark.parametrize(
    ("value", "half"), [(0.055, 5e-4), (103.0, 0.5), (340.0, 0.5), (40.8, 0.05), (0.0005, 5e-5)]
)
def test_half_a_unit_of_the_last_digit(value, half):
    assert half_unit(value) == pytest.approx(half)


@given(st.integers(1, 10**6), st.integers(0, 6))
def test_a_number_is_within_its_rounding_of_what_was_rounded(digits, decimals):
    printed = round(digits / 10**decimals, decimals)
    assert 0 < half_unit(printed) <= printed
    assert half_unit(printed) >= 0.5 * 10.0**-decimals * (1 - 1e-9)
