"""The matrices and the gate: right products pass, every kind of wrong one is named."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from measurement.gate import judge
from measurement.matrices import Inputs, reference

pytestmark = pytest.mark.filterwarnings("error")
N = 5


@pytest.fixture
def case():
    """A right product of order N with its reference and bound."""
    a, b = Inputs([N], seed=3).pair(N)
    expected, bound = reference(a, b)
    return expected.astype(np.float32), expected, bound


def test_inputs_are_seeded_and_of_both_signs():
    inputs = Inputs([8, 40, 3], seed=5)
    assert inputs.max_order == 40
    for matrix in (inputs.a, inputs.b):
        assert (matrix.dtype, matrix.shape) == (np.float32, (1600,))
        assert matrix.min() < -0.9
        assert 0.9 < matrix.max() < 1
        assert matrix.min() >= -1
        assert abs(matrix.mean()) < 0.1
    assert not np.array_equal(inputs.a, inputs.b)
    again = Inputs([40], seed=5)
    np.testing.assert_array_equal(inputs.a, again.a)
    np.testing.assert_array_equal(inputs.b, again.b)
    assert not np.array_equal(inputs.a, Inputs([40], seed=6).a)


def test_pairs_are_views_of_the_same_numbers_for_every_order():
    inputs = Inputs([4], seed=5)
    a, b = inputs.pair(3)
    assert a.shape == b.shape == (3, 3)
    assert np.shares_memory(a, inputs.a)
    np.testing.assert_array_equal(a.ravel(), inputs.a[:9])
    np.testing.assert_array_equal(b.ravel(), inputs.b[:9])


def test_bound_is_highams_by_hand():
    a = np.array([[1, -2, 3], [0, 0, 0], [1, 1, 1]], np.float32)
    b = np.array([[1, 0, -1], [2, 0, 1], [-3, 0, 4]], np.float32)
    expected, bound = reference(a, b)
    np.testing.assert_array_equal(expected, [[-12, 0, 9], [0, 0, 0], [0, 0, 4]])
    u = Fraction(1, 2**24)
    gamma = float(3 * u / (1 - 3 * u))
    absolute = np.array([[14, 0, 15], [0, 0, 0], [6, 0, 6]])
    np.testing.assert_allclose(bound, gamma * absolute, rtol=1e-15)
    assert expected.dtype == bound.dtype == np.float64


@pytest.mark.parametrize("n", [1, 2, 100, 500])
def test_bound_grows_with_the_order_as_gamma(n):
    bound = reference(np.ones((n, n), np.float32), np.eye(n, dtype=np.float32))[1]
    u = Fraction(1, 2**24)
    np.testing.assert_allclose(bound, float(n * u / (1 - n * u)), rtol=1e-14)


def test_right_product_passes(case):
    verdict = judge(*case)
    assert verdict.passed
    assert verdict.reason is None
    assert 0 <= verdict.worst_error <= verdict.worst_bound


@pytest.mark.parametrize(
    ("value", "shown"), [(7.5, "7.5"), (np.nan, "nan"), (np.inf, "inf"), (-np.inf, "-inf")]
)
@pytest.mark.parametrize("place", [(0, 0), (1, 3), (4, 4)])
def test_one_wrong_element_is_named(case, value, shown, place):
    product, expected, bound = case
    product[place] = value
    verdict = judge(product, expected, bound)
    assert not verdict.passed
    assert (verdict.worst_row, verdict.worst_column) == place
    assert verdict.reason == (
        f"1 of 25 elements wrong; worst C({place[0]}, {place[1]}) = {shown}, "
        f"expected {expected[place]:g} ± {bound[place]:.2g}"
    )
    assert verdict.worst_bound == bound[place]
    error = abs(value - expected[place])
    np.testing.assert_equal(verdict.worst_error, error)


def test_unwritten_elements_are_all_counted(case):
    product, expected, bound = case
    product[2:, 1] = np.nan
    verdict = judge(product, expected, bound)
    assert verdict.reason.startswith("3 of 25 elements wrong; worst C(2, 1) = nan")
    product.fill(np.nan)
    assert judge(product, expected, bound).reason.startswith("25 of 25 elements wrong")


def test_worst_is_not_the_largest_error_but_the_largest_multiple_of_its_bound():
    product = np.array([[0.5, 0.0], [0.0, 3.0]], np.float32)
    bound = np.array([[0.1, 1.0], [1.0, 2.0]])
    verdict = judge(product, np.zeros((2, 2)), bound)
    assert (verdict.worst_row, verdict.worst_column) == (0, 0)
    assert (verdict.worst_error, verdict.worst_bound) == (0.5, 0.1)
    assert verdict.reason.startswith("2 of 4 elements wrong; worst C(0, 0) = 0.5, expected 0 ± 0.1")


def test_the_worst_element_is_found_wherever_it_stands():
    """Large products are judged in bands of rows; the outcome is that of one."""
    n = 800
    expected = np.ones((n, n))
    bound = np.full((n, n), 1e-3)
    product = np.ones((n, n), np.float32)
    product[3, 4] = product[790, 5] = 1.1
    product[600, 7] = 1.5
    verdict = judge(product, expected, bound)
    assert (verdict.worst_row, verdict.worst_column) == (600, 7)
    assert verdict.reason.startswith("3 of 640000 elements wrong; worst C(600, 7) = 1.5")
    bound[3, 4] = 0  # infinitely too much, but a number
    product[790, 6] = np.nan
    product[795, 0] = np.inf
    verdict = judge(product, expected, bound)
    assert (verdict.worst_row, verdict.worst_column) == (790, 6)
    assert verdict.reason.startswith("5 of 640000 elements wrong; worst C(790, 6) = nan")
    assert judge(np.ones((n, n), np.float32), expected, bound).passed


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("bound", [2.0**-20, 1.0, 2.0**10])
def test_the_bound_itself_passes_and_the_next_number_fails(sign, bound):
    product = np.zeros((3, 3), np.float32)
    expected = np.zeros((3, 3))
    product[1, 2] = sign * bound
    assert judge(product, expected, np.full((3, 3), bound)).passed
    product[1, 2] = np.nextafter(np.float32(sign * bound), np.float32(sign * np.inf))
    verdict = judge(product, expected, np.full((3, 3), bound))
    assert not verdict.passed
    assert (verdict.worst_row, verdict.worst_column) == (1, 2)


def test_bound_is_tight_to_a_few_roundings():
    """γ of order 8 is half a step of every one of 8 sums, or four steps."""
    a, b = np.ones((8, 8), np.float32), np.ones((8, 8), np.float32)
    expected, bound = reference(a, b)
    step = 2.0**-20  # between the numbers from 8 to 16
    assert bound[0, 0] == pytest.approx(4 * step, rel=1e-6)
    for steps, passed in ((4, True), (5, False)):
        product = np.full((8, 8), 8, np.float32)
        product[3, 3] += np.float32(steps * step)
        assert judge(product, expected, bound).passed is passed


def test_a_zero_row_allows_no_error(case):
    a, b = (matrix.copy() for matrix in Inputs([N], seed=3).pair(N))
    a[2] = 0
    expected, bound = reference(a, b)
    product = expected.astype(np.float32)
    assert (bound[2] == 0).all()
    assert judge(product, expected, bound).passed
    product[2, 4] = -0.0
    assert judge(product, expected, bound).passed
    product[2, 4] = np.float32(1e-45)
    verdict = judge(product, expected, bound)
    assert not verdict.passed
    assert (verdict.worst_row, verdict.worst_column, verdict.worst_bound) == (2, 4, 0.0)


def products(a, b):
    """Yield float32 products of a and b, summed in every order that comes to mind."""
    n = a.shape[0]
    yield a @ b
    yield np.einsum("ik,kj->ij", a, b)
    terms = a[:, :, None] * b[None, :, :]
    for order in (np.arange(n), np.arange(n)[::-1], np.argsort(-np.abs(terms).sum((0, 2)))):
        c = np.zeros((n, n), np.float32)
        for k in order:
            c += terms[:, k]
        yield c
    yield terms.sum(axis=1, dtype=np.float32)


@st.composite
def pairs(draw):
    """Two matrices whose products cancel, over twelve orders of magnitude, without underflow."""
    n = draw(st.integers(1, 24))
    scale = draw(arrays.arrays(np.int8, (2, n, n), elements=st.integers(-20, 20), fill=st.just(0)))
    digits = draw(st.integers(0, 2**32 - 1))
    mantissa = np.random.default_rng(digits).integers(-(2**24), 2**24, (2, n, n))
    a, b = np.ldexp(mantissa.astype(np.float32), scale.astype(np.int32) - 24)
    half = n // 2
    if draw(st.booleans()):  # the second half of every sum takes the first away
        a[:, half : 2 * half] = -a[:, :half]
        b[half : 2 * half] = b[:half]
    return a, b


@given(pairs())
@settings(max_examples=150, deadline=None)
def test_float32_products_never_fail(pair):
    expected, bound = reference(*pair)
    for product in products(*pair):
        assert product.dtype == np.float32
        verdict = judge(product, expected, bound)
        assert verdict.passed, verdict.reason
