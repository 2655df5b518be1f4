"""Rows for templates: selection, order, and the place of each row."""

import pytest

from analysis.render.query import rows
from tests.support.report_data import cpu_cell, gpu_cell, recording, tables

CELLS = [
    gpu_cell("card", "naive", 512, 0.4),
    gpu_cell("card", "block", 512, 0.2, block_size=16),
    gpu_cell("card", "block", 512, 0.1, memory="pinned"),
    gpu_cell("card", "block", 1024, 0.8, spread=None),
    gpu_cell("card", "buffered_row", 1024, 0.8, block_size=None),
    cpu_cell("card", "naive", 512, 2.0),
]


@pytest.fixture(scope="module")
def summary(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    return rows(tables(folder, recordings=[recording("card")], summary=CELLS), "summary")


def places(found):
    return [row.place[1] for row in found]


def test_selected_rows_keep_their_row_numbers_and_filters(summary):
    row = summary.first
    assert row.place == ("summary", 0)
    assert (row["variant"], row["n"], row["block_size"], row["total_s"]) == ("naive", 512, 32, 0.4)
    assert row["threads"] is None
    assert type(row["n"]) is int
    with pytest.raises(KeyError):
        row["unknown"]
    assert summary.where(n=512).where(variant="block").filters == {"n": 512, "variant": "block"}
    others = [summary.known("total_low_s"), summary.between("n", low=600), summary.sort("n")]
    for other in (*others, summary.best_of("total_s", "n")):
        assert other.filters is other.where(n=512).filters is None


def test_selecting_and_sorting_rows_keeps_their_places_and_skips_blanks(summary):
    for equal, found in (
        *(({"variant": "block"}, [1, 2, 3]), ({"variant": ["naive", "buffered_row"]}, [0, 4, 5])),
        *(({"variant": "block", "n": 512, "block_size": 16}, [1]), ({"gpu": None}, [5])),
        *(({"gpu": None, "block_size": None}, [5]), ({"block_size": None}, [4, 5])),
        *(({"block_size": 32}, [0, 2, 3]), ({"n": 3}, [])),
    ):
        chosen = summary.where(**equal)
        assert (places(chosen), len(chosen), chosen.filters) == (found, len(found), equal)
        assert len(summary) == len(CELLS), "the selection leaves the rows unchanged"
    assert places(summary.known("total_low_s")) == [0, 1, 2, 4, 5]
    assert places(summary.known("total_low_s", "block_size")) == [0, 1, 2]
    assert places(summary.between("total_s", 0.2, 0.4)) == [0, 1]
    assert places(summary.between("total_s", high=0.15)) == [2]
    assert places(summary.sort("total_s")) == [2, 1, 0, 3, 4, 5]
    assert places(summary.sort("n", "total_s", reverse=True)) == [3, 4, 5, 0, 1, 2]
    assert places(summary.best_of("total_s", "n")) == [3, 5]
    assert places(summary.best_of("total_s", "variant", "n", least=True)) == [0, 2, 3, 4]
    assert (summary.most("total_high_s").place[1], summary.least("total_s").place[1]) == (5, 2)
    assert (summary.values("block_size"), summary.values("gpu")) == ([32, 16], ["card"])
    nothing = summary.where(n=3)
    assert (nothing.first, nothing.most("total_s"), nothing.least("total_s")) == (None,) * 3
    assert nothing.values("variant") == []
    assert not nothing


def test_columns_joined_from_another_table_keep_their_place(tmp_path):
    kernel = {"gpu": "card", "variant": "block", "n": 512, "block_size": None}
    speedups = [
        kernel | {"baseline": name, "speedup": value} for name, value in (("a-b", 2), ("c", 3))
    ]
    kernels = [kernel | {"variant": "naive"}, kernel]
    store = tables(tmp_path, ladder_summary=kernels, ladder_speedups=speedups)
    joined = (
        rows(store, "ladder_summary")
        .where(gpu="card")
        .beside(
            rows(store, "ladder_speedups"), "gpu variant n block_size", baseline=["a-b", "c", "d"]
        )
    )
    without, block = joined
    assert (block["a_b_speedup"], block["c_speedup"], block["d_speedup"]) == (2, 3, None)
    assert block.at("c_speedup") == ("ladder_speedups", 1, "speedup")
    assert (block.at("n"), without["c_speedup"]) == (("ladder_summary", 1, "n"), None)
    assert joined.most("a_b_speedup").place == block.place
    assert joined.where(n=512).filters == {"gpu": "card", "n": 512}
    assert joined.where(c_speedup=3).filters is None, "no count of one table"
