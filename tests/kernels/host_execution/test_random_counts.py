"""Counts of a random product of every kernel; small products with the residues of large ones."""

import pytest

from kernels.catalog.entries import VARIANTS
from study.config import load
from tests.support.products import fmas_of_tiles, product_of
from tests.support.random_products import CONFIG, KERNELS, alike, draw, fault, residues_of


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS)
def test_counts_are_theory(host_builds, kernel):
    smallest = min((draw(kernel, -number) for number in range(1, 6)), key=fmas_of_tiles)
    assert fault(kernel, smallest, host_builds) == ""


def test_every_kernel_is_drawn():
    assert {*KERNELS} >= {entry.kernel_name for entry in VARIANTS.values()} - {None}


@pytest.mark.parametrize(
    ("name", "shape", "block", "small"),
    [
        ("block", 4001, 32, "97"),  # of 64: two iterations
        ("naive", 1000, 8, "40"),  # of a cache line
        ("bmm_tile", "16x640x320x1000", 32, "2x32x64x40"),
        ("sgemm_top", 3000, 32016, "56x184x56"),
    ],
)
def test_a_small_product_has_the_residues_of_a_large_one(name, shape, block, small):
    assert str(alike(product_of(name, shape, block)).shape) == small


@pytest.mark.exhaustive
def test_products_with_the_residues_of_the_study_have_the_counts_of_theory(host_builds):
    products = residues_of(load(CONFIG).study)
    faults = {str(one): fault(one.variant, one, host_builds) for one in products}
    assert {name: text for name, text in faults.items() if text} == {}
