"""Kernels on the host at sizes that take seconds each: right products."""

import pytest

from kernels.catalog.entries import VARIANTS
from kernels.host_execution import compiler
from kernels.host_execution.binding import reference
from kernels.host_execution.check import execute, inputs_of
from tests.support.builds import in_parallel
from tests.support.products import product_of

pytestmark = pytest.mark.slow
# Products that take minutes to be counted.
LARGE = [
    (name, dtype, shape)
    for shape, names in (
        ("640x320x1000", ("mm_naive", "mm_tile", "bmm_naive", "bmm_tile")),
        ("3x320x100x640", ("bmm_tile",)),
    )
    for name in names
    for dtype in (VARIANTS[name].dtypes if (name, shape[0]) == ("mm_tile", "6") else ["float32"])
]


def modes_of(name, dtype):
    """Return the optimised builds: one kernel of a type in both, the others in that of a GPU."""
    return compiler.MODES[1:] if (name, dtype) == ("mm_tile", "float32") else ("fused",)


@pytest.fixture(scope="module")
def large(host_builds):
    """Large products of the optimised builds, and their references."""
    products = [product_of(name, shape, 32, dtype) for name, dtype, shape in LARGE]
    inputs = {(one.dtype, one.shape): inputs_of(one) for one in products}
    references = {
        (one.dtype, one.shape, mode)
        for one in products
        for mode in modes_of(one.variant, one.dtype)
    }

    def multiply(one):
        modes = modes_of(one.variant, one.dtype)
        return {mode: execute(one, mode, folder=host_builds)[0] for mode in modes}

    def refer(one):
        dtype, shape, mode = one
        return reference(*inputs[dtype, shape], mode == "fused", host_builds)

    return in_parallel(multiply, products), in_parallel(refer, references)


@pytest.mark.parametrize(("name", "dtype", "shape"), LARGE)
def test_large_products_are_exact(large, name, dtype, shape):
    asked = product_of(name, shape, 32, dtype)
    found, expected = large
    assert set(found[asked]) == set(modes_of(name, dtype))
    for mode, c in found[asked].items():
        assert c.dtype == dtype
        assert c.tobytes() == expected[asked.dtype, asked.shape, mode].tobytes(), mode
