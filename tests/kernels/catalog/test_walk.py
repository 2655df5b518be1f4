"""The walk of the report: its code is that of the sources, its drawings those of host execution."""

import csv
import hashlib
import io
from collections import Counter

import pytest

from base.errors import StudyError
from kernels.catalog.walk import EXCERPTS, SELECTING, Excerpt, code, drawings
from kernels.host_execution.counts import table
from tests.support import ROOT
from tests.support.products import product_of

COUNTED = {"naive": 64, "naive_coalesced": 64, "block": 64, "block_unroll4": 64}
COUNTED |= {"register_tile": 128, "register_tile_async": 128}
COUNTED |= {"sgemm_top": 256, "sgemm_tensor": 128}


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


@pytest.fixture(scope="module")
def rows():
    excerpts = [each for each in EXCERPTS if each.variant in COUNTED]
    products = [product_of(e.variant, COUNTED[e.variant], e.block_size) for e in excerpts]
    return list(csv.DictReader(io.StringIO(table(products, []))))


@pytest.mark.slow
@pytest.mark.parametrize("variant", COUNTED)
def test_drawings_are_those_of_host_execution(rows, variant):
    """Every line has the sectors of a drawing, or the mean of A and B; conflicts are drawn."""
    drawn = drawings(next(each for each in EXCERPTS if each.variant == variant))
    sectors = {each.transactions for each in drawn if not each.is_shared}
    own = [row for row in rows if row["variant"] == variant]
    found = {
        float(row["per_request"])
        for row in own
        if row["line"] and row["quantity"] == "global_load_sectors"
    }
    assert found
    assert found in ({*map(float, sectors)}, {sum(sectors) / 2})
    (conflicts,) = [
        float(row["count"])
        for row in own
        if row["quantity"] == "shared_load_bank_conflicts" and not row["line"]
    ] or [0.0]
    assert (conflicts > 0) == any(each.transactions > 1 for each in drawn if each.is_shared)


@pytest.mark.parametrize("block_size", [2, 8, 32])
def test_drawings_follow_the_block_size(block_size):
    excerpt = next(each for each in EXCERPTS if each.variant == "naive_coalesced")
    drawn = drawings(excerpt, block_size)
    text = table([product_of("naive_coalesced", 64, block_size)], [])
    counted = {
        float(row["per_request"])
        for row in csv.DictReader(io.StringIO(text))
        if row["line"] and row["quantity"] == "global_load_sectors"
    }
    assert counted == {sum(each.transactions for each in drawn) / 2}
    for each in drawn:
        places = Counter(each.lanes)
        assert tuple(places[place] for place in sorted(places)) == each.cells
