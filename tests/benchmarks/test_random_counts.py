"""Counts of random products of every kernel, and of products with the study's residues."""

import pytest

from benchmarks.random_counts import CONFIG, KERNELS, STUDY, alike, draw, fault, residues_of
from kernels.catalog.entries import VARIANTS
from study.config import load
from tests.support.builds import in_parallel
from tests.support.products import product_of


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [STUDY, *KERNELS])
def test_counts_are_theory(host_builds, kernel):
    cases = residues_of(load(CONFIG).study) if kernel == STUDY else [draw(kernel, -1)]
    name = None if kernel == STUDY else kernel
    found = in_parallel(lambda one: fault(name or one.variant, one, host_builds), cases)
    assert {str(one): text for one, text in found.items() if text} == {}


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
