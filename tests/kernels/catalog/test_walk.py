"""The walk of the report: its code is in the sources, and its drawings equal host execution."""

import hashlib
from collections import Counter

import pytest

from base.errors import StudyError
from kernels.catalog.walk import EXCERPTS, SELECTING, Excerpt, code, drawings
from kernels.host_execution.check import execute
from tests.support import ROOT
from tests.support.products import product_of

COUNTED = dict.fromkeys(("naive", "naive_coalesced", "block", "block_unroll4"), 64)
COUNTED |= dict.fromkeys(("register_tile", "register_tile_async", "sgemm_tensor"), 128)
COUNTED["sgemm_top"] = "256x64x256"


@pytest.mark.parametrize("excerpt", EXCERPTS, ids=lambda excerpt: excerpt.variant)
def test_code_is_a_passage_of_the_source(excerpt):
    shown = code(excerpt)
    data = (ROOT / shown["source"]).read_bytes()
    assert shown["sha256"] == hashlib.sha256(data).hexdigest()
    first = shown["first_line"] - 1
    source = data.decode().splitlines()[first : first + excerpt.lines]
    text = [line.strip() for line in source if not line.startswith(SELECTING)]
    assert [line.strip() for line in shown["text"].splitlines()] == text


def test_a_passage_that_moved_is_named():
    with pytest.raises(StudyError, match=r"kernels/naive.cu has no line with 'moved'"):
        code(Excerpt("naive", 32, "moved", 1))


@pytest.mark.slow
@pytest.mark.parametrize("variant", COUNTED)
def test_drawings_are_those_of_host_execution(host_builds, variant):
    """Every line has the sectors of a drawing, or the mean of A and B; conflicts are drawn."""
    excerpt = next(each for each in EXCERPTS if each.variant == variant)
    product = product_of(variant, COUNTED[variant], excerpt.block_size)
    counts = execute(product, "counted", folder=host_builds)[1].counts
    found = {c.transactions / c.requests for c in counts if c.operation == "global_load"}
    drawn = drawings(excerpt)
    sectors = {each.transactions for each in drawn if not each.is_shared}
    assert found
    assert found in ({*map(float, sectors)}, {sum(sectors) / 2})
    conflicts = sum(c.transactions - c.ideal for c in counts if c.operation == "shared_load")
    assert (conflicts > 0) == any(each.transactions > 1 for each in drawn if each.is_shared)


@pytest.mark.parametrize("block_size", [2, 8, 32])
def test_drawings_follow_the_block_size(host_builds, block_size):
    excerpt = next(each for each in EXCERPTS if each.variant == "naive_coalesced")
    drawn = drawings(excerpt, block_size)
    product = product_of("naive_coalesced", 64, block_size)
    counts = execute(product, "counted", folder=host_builds)[1].counts
    counted = {c.transactions / c.requests for c in counts if c.operation == "global_load"}
    assert counted == {each.transactions for each in drawn}
    for each in drawn:
        places = Counter(each.lanes)
        assert tuple(places[place] for place in sorted(places)) == each.cells
