"""Uncertainty of printed numbers, and rounding to an order of magnitude."""

from decimal import Decimal


def half_unit(value: float) -> float:
    """Return half a unit of the last digit of a number as printed: 0.0005 for 0.055, 0.5 for 103.

    Trailing zeros count as not printed.
    """
    exponent = Decimal(repr(value)).normalize().as_tuple().exponent
    assert isinstance(exponent, int), value  # fails for infinity, whose exponent is a text
    return 0.5 * 10.0 ** min(exponent, 0)


def order_of_magnitude(value: float) -> float:
    """Return a value with one significant digit: 8000 for 7680."""
    return float(f"{value:.0e}")
