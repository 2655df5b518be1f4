"""What the rounding of a printed number leaves open, and how few runs are rounded."""

from decimal import Decimal


def half_unit(value: float) -> float:
    """Return half a unit of the last digit of a number as printed: 0.0005 for 0.055, 0.5 for 103.

    Zeros at its end, which a number does not keep, are taken as not printed.
    """
    exponent = Decimal(repr(value)).normalize().as_tuple().exponent
    assert isinstance(exponent, int), value  # not of infinity
    return 0.5 * 10.0 ** min(exponent, 0)


def order_of_magnitude(value: float) -> float:
    """Return a value with one significant digit: 8000 of 7680, as one run of each side tells it."""
    return float(f"{value:.0e}")
