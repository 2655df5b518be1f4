"""The matrices and the gate: right products pass, every kind of wrong one is named."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from kernels.products import matrices
from kernels.products.gate import evaluate
from kernels.products.matrices import POISON_WORD, Inputs, reference
from kernels.products.shape import Shape

pytestmark = pytest.mark.filterwarnings("error")
N = 5
FLOATS = {np.float32: 24, np.float64: 53}  # bits of the mantissa, the implied one included


def inputs_of(*shapes, dtype="float32", seed=3):
    return Inputs([(dtype, Shape.parse(shape)) for shape in shapes], seed)


def pair_of(shape, dtype="float32", seed=3):
    pair = inputs_of(shape, dtype=dtype, seed=seed).pair(dtype, Shape.parse(shape))
    return tuple(matrix.copy() for matrix in pair)


def failed(*product_and_bound):
    verdict = evaluate(*product_and_bound)
    assert not verdict.passed
    return verdict


def at(verdict):
    return verdict.worst_row, verdict.worst_column


@pytest.fixture
def case():
    expected, bound = reference(*pair_of(N))
    return expected.astype(np.float32), expected, bound


def test_random_integers_cover_the_whole_range_of_their_type():
    """Products and their sums therefore wrap around."""
    for dtype in ("float32", "float64", "int32"):  # the same matrices in every study
        few, many = (inputs_of(*shapes, dtype=dtype) for shapes in ([9], [9, "3x17x33x65"]))
        for one, other in ((few.a[dtype], many.a[dtype]), (few.b[dtype], many.b[dtype])):
            assert other.size > one.size
            np.testing.assert_array_equal(one, other[: one.size])
    inputs = inputs_of(64, dtype="int32", seed=5)
    for matrix in (inputs.a["int32"], inputs.b["int32"]):
        assert matrix.dtype == np.int32
        assert matrix.min() < -0.99 * 2**31
        assert matrix.max() > 0.99 * 2**31
        assert abs(matrix.astype(float).mean()) < 0.1 * 2**31
        assert set(np.unique(matrix & 1)) == {0, 1}, "the lowest bits differ too"
    assert not np.array_equal(inputs.a["int32"], inputs.b["int32"])


def test_random_vectors_cover_the_largest_matrix_of_each_type():
    problems = [("float32", "2x3x5x4"), ("float32", "10x3x2"), ("float64", "7"), ("int32", "1x9x2")]
    inputs = Inputs([(dtype, Shape.parse(shape)) for dtype, shape in problems], seed=1)
    sizes = {dtype: (inputs.a[dtype].size, inputs.b[dtype].size) for dtype in inputs.a}
    # 2x3x5x4 is m = 3, k = 5, n = 4, twice.
    assert sizes == {"float32": (30, 40), "float64": (49, 49), "int32": (9, 18)}
    assert inputs.c_bytes == 8 * 49
    inputs = inputs_of(8, seed=5)  # whose pairs are views of the same numbers
    a, b = inputs.pair("float32", Shape.parse("3x2x5x4"))
    assert (a.shape, b.shape) == ((3, 2, 5), (3, 5, 4))
    assert np.shares_memory(a, inputs.a["float32"])
    np.testing.assert_array_equal(a.ravel(), inputs.a["float32"][:30])
    np.testing.assert_array_equal(b.ravel(), inputs.b["float32"][:60])


def test_the_error_bound_equals_highams_formula_computed_by_hand():
    a = np.array([[[1, -2, 3], [0, 0, 0], [1, 1, 1]]], np.float32)
    b = np.array([[[1, 0, -1], [2, 0, 1], [-3, 0, 4]]], np.float32)
    expected, bound = reference(a, b)
    np.testing.assert_array_equal(expected, [[[-12, 0, 9], [0, 0, 0], [0, 0, 4]]])
    u = Fraction(1, 2**24)
    gamma = float(3 * u / (1 - 3 * u))
    absolute = np.array([[[14, 0, 15], [0, 0, 0], [6, 0, 6]]])
    np.testing.assert_allclose(bound, gamma * absolute, rtol=1e-15)
    assert expected.dtype == bound.dtype == np.float64


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_references_of_a_batch_are_exact_to_half_the_error_bound(dtype):
    a, b = pair_of("4x3x6x5", dtype)
    expected, bound = reference(a, b)
    assert expected.shape == bound.shape == (4, 3, 5)
    for batch, row, column in np.ndindex(expected.shape):
        factors = zip(a[batch, row].tolist(), b[batch, :, column].tolist(), strict=True)
        exact = sum(Fraction(x) * Fraction(y) for x, y in factors)
        place = batch, row, column
        assert abs(Fraction(expected[place].item()) - exact) <= bound[place] / 2


def wrapped(a, b):
    """Return the product of int32 matrices modulo 2³², by Python's integers without limit."""
    exact = a.astype(object) @ b.astype(object)
    return ((exact + 2**31) % 2**32 - 2**31).astype(np.int64)


@pytest.mark.parametrize("slice_", [1, 2, 7, 64, 1 << 20])
@pytest.mark.parametrize("shape", ["5", "3x4x17x2", "1x64x1", "2x1x7x3"])
def test_integers_wrap_around_modulo_2_to_the_32(shape, slice_, monkeypatch):
    """Whether k fits into one exact sum, or needs several."""
    monkeypatch.setattr(matrices, "_EXACT_SUMS", slice_)
    a, b = pair_of(shape, "int32")
    expected, bound = reference(a, b)
    np.testing.assert_array_equal(expected, wrapped(a, b))
    assert (bound == 0).all()
    assert expected.dtype == bound.dtype == np.float64
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(np.matmul(a, b), expected)


ENDS = [-(2**31), -1, 2**31 - 1]


@pytest.mark.parametrize("a", ENDS)
@pytest.mark.parametrize("b", ENDS)
def test_products_of_the_extreme_integers_wrap_around_exactly(a, b, monkeypatch):
    """Sums of the largest products of halves are exact in float64."""
    assert 2 * matrices._EXACT_SUMS * (2**16 - 1) ** 2 < 2**53
    monkeypatch.setattr(matrices, "_EXACT_SUMS", 1 << 11)
    k = (1 << 12) + 3
    left, right = np.full((1, 1, k), a, np.int32), np.full((1, k, 1), b, np.int32)
    assert reference(left, right)[0][0, 0, 0] == (k * a * b + 2**31) % 2**32 - 2**31


def test_an_integer_product_that_is_off_by_one_fails_the_gate():
    a, b = pair_of("2x3x40x4", "int32")
    expected, bound = reference(a, b)
    product = wrapped(a, b).astype(np.int32)
    assert evaluate(product, expected, bound).passed
    for wrong in (1, -1):
        spoilt = product.copy()
        spoilt[1, 2, 3] += wrong
        verdict = failed(spoilt, expected, bound)
        assert at(verdict) == (5, 3), "rows of a batch are numbered in sequence"
        assert (verdict.worst_error, verdict.worst_bound) == (1.0, 0.0)
        shown, right = spoilt[1, 2, 3], product[1, 2, 3]
        assert verdict.reason == (
            f"1 of 24 elements wrong; worst C(5, 3) = {shown}, expected {right} ± 0"
        )


def test_a_product_that_was_not_written_fails_the_gate_in_every_type():
    a, b = pair_of("3x3x3", "int32")
    expected, bound = reference(a, b)
    verdict = evaluate(np.full((1, 3, 3), POISON_WORD, np.uint32).view(np.int32), expected, bound)
    assert verdict.reason.startswith("9 of 9 elements wrong; worst C(0, 0) = 2147483647, expected ")
    for dtype in FLOATS:
        assert np.isnan(np.full(4, POISON_WORD, np.uint32).view(dtype)).all()


@pytest.mark.parametrize(
    ("value", "shown"), [(7.5, "7.5"), (np.nan, "nan"), (np.inf, "inf"), (-np.inf, "-inf")]
)
@pytest.mark.parametrize("place", [(0, 0), (1, 3), (4, 4)])
def test_the_gate_names_the_one_wrong_element(case, value, shown, place):
    product, expected, bound = (matrix[0] for matrix in case)
    product[place] = value
    verdict = failed(product, expected, bound)
    assert at(verdict) == place
    right = f"expected {expected[place]:g} ± {bound[place]:.2g}"
    assert verdict.reason == f"1 of 25 elements wrong; worst C{place} = {shown}, {right}"
    assert verdict.worst_bound == bound[place]
    np.testing.assert_equal(verdict.worst_error, abs(value - expected[place]))


def test_the_gate_finds_the_worst_element_in_any_band_of_rows():
    """Large products are evaluated in bands of rows."""
    n = 800
    expected = np.ones((n, n))
    bound = np.full((n, n), 1e-3)
    product = np.ones((n, n), np.float32)
    product[3, 4] = product[790, 5] = 1.1
    product[600, 7] = 1.5
    verdict = evaluate(product, expected, bound)
    assert at(verdict) == (600, 7)
    assert verdict.reason.startswith("3 of 640000 elements wrong; worst C(600, 7) = 1.5")
    # Larger errors, but smaller multiples of their bounds: in another band and in the same one.
    product[2, 1], product[600, 8], bound[2, 1], bound[600, 8] = 151, 3, 1, 1
    assert at(evaluate(product, expected, bound)) == (600, 7)
    product[2, 1] = product[600, 8] = 1
    bound[3, 4] = 0  # an infinite multiple of a finite error
    product[790, 6] = np.nan
    product[795, 0] = np.inf
    verdict = evaluate(product, expected, bound)
    assert at(verdict) == (790, 6)
    assert verdict.reason.startswith("5 of 640000 elements wrong; worst C(790, 6) = nan")
    assert evaluate(np.ones((n, n), np.float32), expected, bound).passed


def test_errors_up_to_a_given_multiple_of_the_bound_pass_and_are_reported(case):
    product, expected, bound = case
    product[0, 2, 3] = expected[0, 2, 3] + 3.5 * bound[0, 2, 3]
    verdict = evaluate(product, expected, bound, 4.0)
    assert (verdict.passed, verdict.worst_bound) == (True, 4 * bound[0, 2, 3])
    verdict = failed(product, expected, bound, 3.0)
    assert verdict.reason.endswith(f"± {3 * bound[0, 2, 3]:.2g}")


@pytest.mark.parametrize("value", [sign * 2.0**n for sign in (1, -1) for n in (-20, 0, 10)])
def test_an_error_equal_to_the_bound_passes_and_the_next_larger_one_fails(value):
    product, expected = np.zeros((3, 3), np.float32), np.zeros((3, 3))
    bounds = np.full((3, 3), abs(value))
    product[1, 2] = value
    assert evaluate(product, expected, bounds).passed
    product[1, 2] = np.nextafter(np.float32(value), np.float32(value * np.inf))
    verdict = failed(product, expected, bounds)
    assert at(verdict) == (1, 2)


def test_a_row_of_zeros_allows_no_error():
    a, b = pair_of(N)
    a[0, 2] = 0
    (expected,), (bound,) = reference(a, b)
    product = expected.astype(np.float32)
    assert (bound[2] == 0).all()
    assert evaluate(product, expected, bound).passed
    product[2, 4] = -0.0
    assert evaluate(product, expected, bound).passed
    product[2, 4] = np.float32(1e-45)
    verdict = failed(product, expected, bound)
    assert (*at(verdict), verdict.worst_bound) == (2, 4, 0.0)


def products(a, b):
    n = a.shape[0]
    yield a @ b
    yield np.einsum("ik,kj->ij", a, b)
    terms = a[:, :, None] * b[None, :, :]
    for order in (np.arange(n), np.arange(n)[::-1], np.argsort(-np.abs(terms).sum((0, 2)))):
        c = np.zeros((n, n), a.dtype)
        for k in order:
            c += terms[:, k]
        yield c
    yield terms.sum(axis=1, dtype=a.dtype)


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


@pytest.mark.slow
@pytest.mark.parametrize("dtype", FLOATS)
@given(pair=pairs())
@settings(max_examples=150, deadline=None)
def test_correct_products_never_fail_the_gate(dtype, pair):
    a, b = (matrix.astype(dtype) for matrix in pair)
    (expected,), (bound,) = reference(a[None], b[None])
    for product in products(a, b):
        assert product.dtype == dtype
        verdict = evaluate(product, expected, bound)
        assert verdict.passed, verdict.reason
