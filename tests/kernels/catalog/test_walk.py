"""The drawings of the walk equal host execution."""

from collections import Counter

import pytest

from kernels.catalog.walk import drawings
from kernels.host_execution.check import execute
from tests.support.products import product_of

COUNTED = dict.fromkeys(("naive", "naive_coalesced", "block", "block_unroll4"), (64, 32))
COUNTED |= dict.fromkeys(("register_tile", "register_tile_conflict_free"), (128, None))
COUNTED |= {"register_tile_async": (128, None), "sgemm_top": ("256x64x256", 128256)}


@pytest.mark.slow
@pytest.mark.parametrize("variant", COUNTED)
def test_drawn_accesses_equal_those_counted_by_host_execution(host_builds, variant):
    """Every line has the sectors of a drawing, or the mean of A and B; conflicts are drawn."""
    shape, block_size = COUNTED[variant]
    product = product_of(variant, shape, block_size)
    counts = execute(product, "counted", folder=host_builds)[1].counts
    found = {c.transactions / c.requests for c in counts if c.operation == "global_load"}
    drawn = drawings(variant, block_size)
    sectors = {each.transactions for each in drawn if not each.is_shared}
    assert found
    assert found in ({*map(float, sectors)}, {sum(sectors) / 2})
    conflicts = sum(c.transactions - c.ideal for c in counts if c.operation == "shared_load")
    assert (conflicts > 0) == any(each.transactions > 1 for each in drawn if each.is_shared)


@pytest.mark.parametrize("block_size", [2, 8, 32])
def test_drawings_of_accesses_depend_on_the_block_size(host_builds, block_size):
    drawn = drawings("naive_coalesced", block_size)
    product = product_of("naive_coalesced", 64, block_size)
    counts = execute(product, "counted", folder=host_builds)[1].counts
    counted = {c.transactions / c.requests for c in counts if c.operation == "global_load"}
    assert counted == {each.transactions for each in drawn}
    for each in drawn:
        places = Counter(each.lanes)
        assert tuple(places[place] for place in sorted(places)) == each.cells
