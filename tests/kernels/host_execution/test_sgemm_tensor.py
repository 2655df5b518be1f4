"""Products on tensor cores: how its errors depend on the data, and the changes of its scales."""

import numpy as np
import pytest

from kernels.catalog.entries import VARIANTS
from kernels.host_execution import check as host
from tests.support.products import product_of

ENTRY = VARIANTS["sgemm_tensor"]
UNIT = 2.0**-24
RNG = np.random.default_rng(5)


def uniform(n):
    return RNG.uniform(-1, 1, (n, n))


def wide(n):
    return 10 ** RNG.uniform(-6, 6, (n, n)) * RNG.choice([-1, 1], (n, n))


def cancelling(n):
    a, b = uniform(n), uniform(n)
    half = n // 2
    a[:, half:] = a[:, :half]
    b[half:] = -b[:half] * (1 + 2.0**-12 * uniform(n)[:half])
    return a, b


def growing(n):
    """A's columns grow by 20 orders of magnitude, B's rows by 10: many tiles change the scales."""
    k = np.arange(n) / n
    return uniform(n) * 10 ** (20 * k - 10), uniform(n) * (10 ** (10 * k - 5))[:, None]


DATA = {
    "uniform": lambda n: (uniform(n), uniform(n)),
    "positive": lambda n: (abs(uniform(n)), abs(uniform(n))),
    "wide": lambda n: (wide(n), wide(n)),
    "cancelling": cancelling,
    "growing": growing,
    "long": lambda n: (growing(8 * n)[0][:n], growing(8 * n)[1][:, :n]),
    "shrinking": lambda n: tuple(each[::-1, ::-1] for each in growing(n)),
    "rows and columns of any scale": lambda n: (
        uniform(n) * 10 ** RNG.uniform(-18, 18, (n, 1)),
        uniform(n) * 10 ** RNG.uniform(-15, 15, n),
    ),
    "triangles": lambda n: (np.triu(uniform(n)), np.tril(uniform(n))),
    "zeros": lambda n: (np.zeros((n, n)), uniform(n)),
    "against each other": lambda n: (
        uniform(n) * (scale := 10 ** RNG.uniform(-6, 6, n)),
        uniform(n) / scale[:, None],
    ),
}


@pytest.fixture(params=["sgemm_tensor", "sgemm_tensor_tma"])
def multiply(request, host_builds, monkeypatch):
    """Return a function that multiplies matrices on the host, optimised."""

    def multiplied(a, b):
        if len(a) != len(b) and request.param == "sgemm_tensor":
            pytest.skip("square products only")
        operands = [np.ascontiguousarray(each[None], np.float32) for each in (a, b)]
        monkeypatch.setattr(host, "inputs_of", lambda *_: operands)
        product = product_of(request.param, f"{len(a)}x{len(b)}x{b.shape[1]}")
        return host.execute(product, "separate", folder=host_builds)[0][0]

    return multiplied


def bound(a, b):
    """Return the bound of docs/explanation/methods.md, plus the rounding of scaled elements."""
    a, b = abs(a), abs(b)
    left = np.outer(a.max(1), b.sum(0)) + np.outer(a.sum(1), b.max(0))
    return ENTRY.roundoffs(len(b)) * UNIT * (a @ b) + 2.0**-47 * left


@pytest.mark.parametrize("n", [100, pytest.param(256, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("kind", DATA)
def test_errors_of_sgemm_tensor_are_within_their_bound(multiply, kind, n):
    a, b = (each.astype(np.float32).astype(np.float64) for each in DATA[kind](n))
    error = abs(multiply(a, b) - a @ b)
    assert (error <= bound(a, b)).all(), kind
    units = np.divide(error, UNIT * (abs(a) @ abs(b)), where=error > 0, out=0 * error).max()
    # FP32 sums are off by a few units, except where large elements meet small elements only.
    assert units < (20 if kind != "against each other" else 1e5), kind
    assert (kind == "zeros") == (units == 0)


def test_a_product_of_single_elements_is_rounded_except_in_its_last_bits(multiply):
    for a, b in RNG.uniform(-2, 2, (20, 2)).astype(np.float32).astype(np.float64):
        assert abs(multiply(a[None, None], b[None, None])[0, 0] - a * b) <= 9 * UNIT * abs(a * b)


def test_nan_and_infinity_stay_in_their_row_and_column(multiply):
    a, b = uniform(130), uniform(130)
    a[3, 5], a[7, 129], b[70, 9] = np.inf, np.nan, -np.inf
    finite = np.isfinite(multiply(a, b))
    rows, columns = np.ogrid[:130, :130]
    np.testing.assert_array_equal(finite, (rows != 3) & (rows != 7) & (columns != 9))


def test_the_largest_and_smallest_numbers_are_multiplied_accurately(multiply):
    a, b = uniform(64), uniform(64)
    huge, tiny = a * 3e38, b * 1e-37
    product, exact = multiply(huge, tiny), huge.astype(np.float32) @ tiny.astype(np.float32)
    np.testing.assert_allclose(product, exact, atol=3e38 * 1e-37 * 64 * 1e-6)
    assert (multiply(a * 1e-30, b * 1e-30) == 0).all()


def test_the_error_bound_equals_the_one_documented_in_methods_md():
    assert [ENTRY.roundoffs(k) for k in (1, 64, 65, 4096)] == [161, 161, 162, 224]
    tma = VARIANTS["sgemm_tensor_tma"]
    assert [tma.roundoffs(k) for k in (1, 128, 129, 4096)] == [305, 305, 306, 336]
    assert VARIANTS["block"].roundoffs(4096) == 4096
