"""Runs in pieces and as graphs, compared with the plain run of the same kernel."""

import pandas as pd
import pytest

from analysis.data import recordings as data
from analysis.data.ceilings import pieces_table
from analysis.kernels.end_to_end_modes import end_to_end_modes_table
from analysis.kernels.ladder import ladder_table
from measurement.recording.recording import read
from tests.support import ROOT
from tests.support.report_data import frame, interval, square

SAME = {"gpu": "card", "dtype": "float32", "host_memory": "pinned", **square(2048)}
PIECES = SAME | {"variant": "sgemm_top_pieces", "block_size": 64064, "after": "sgemm_top"}
PIECES |= {"after_block_size": 128128, "quantity": "total", "time_s": 0.0008}
PIECES |= {"after_time_s": 0.0013, "verdict": "faster", **interval("speedup", 1.625, 0.01)}
PLAIN = SAME | {"variant": "sgemm_top", "block_size": 128128, "h2d_s": 0.0006}
PLAIN |= {"in_run_kernel_s": 0.0004, "d2h_s": 0.0002}


OF_RUN = SAME | {"variant": "sgemm_top_pieces", "block_size": 64064, "gpus": 1}
SETTINGS = [
    OF_RUN | {"pieces": 4, "used": False, "copies_s": 0.0004, "run_s": 0.0009},
    OF_RUN | {"pieces": 8, "used": True, "copies_s": 0.0005, "run_s": 0.0008},
    OF_RUN | {"gpus": 2, "variant": "sgemm_tensor_two_gpus", "used": True, "copies_s": 0.0001},
]


def table(ladder, plain=PLAIN, settings=()):
    others = [PLAIN | {"block_size": 64064, "h2d_s": 9.0}, PLAIN | {"gpu": "other", "h2d_s": 9.0}]
    given = {"ladder": ladder, "summary": [*others, plain], "pieces": settings}
    return end_to_end_modes_table(*(frame(name, rows) for name, rows in given.items()))


def test_a_run_is_compared_with_the_parts_of_the_plain_run():
    (row,) = table([PIECES]).to_dict("records")
    assert (row["total_s"], row["after_total_s"], row["speedup"]) == (0.0008, 0.0013, 1.625)
    assert row["parts_s"] == pytest.approx(0.0012)
    assert (row["limit"], row["limit_s"]) == ("copies to the GPU", 0.0006)
    assert row["share_of_limit"] == pytest.approx(0.75)


def test_a_run_is_compared_with_the_copies_without_the_product():
    (row,) = table([PIECES], settings=SETTINGS).to_dict("records")
    assert (row["pieces"], row["copies_s"]) == (8, 0.0004)
    assert row["over_floor"] == pytest.approx(2)
    (row,) = table([PIECES]).to_dict("records")
    assert all(pd.isna(row[name]) for name in ("pieces", "copies_s", "over_floor"))


def test_only_runs_in_pieces_are_listed_and_unknown_parts_give_no_limit():
    (row,) = table([PIECES], PLAIN | {"d2h_s": None}).to_dict("records")
    assert row["total_s"] == 0.0008
    assert all(pd.isna(row[name]) for name in ("parts_s", "limit", "limit_s", "share_of_limit"))
    assert table([PIECES | {"quantity": "kernel"}, PIECES | {"variant": "sgemm_top"}]).empty


@pytest.mark.slow
def test_each_side_has_its_fastest_tile():
    sources = data.sources({"h200": read(ROOT / "data" / "recordings" / "h200-sxm")})
    none = {name: frame(name, []) for name in ("machine_code", "energy")}
    own = (ladder_table(sources, **none), data.summary_table(sources), pieces_table(sources))
    runs = end_to_end_modes_table(*own)
    assert set(runs["variant"]) == {"sgemm_top_pieces", "sgemm_top_graph"}
    cells = sources[0].cells
    cells = cells[cells["host_memory"] == "pinned"]
    fastest = cells.groupby(["variant", "n"])["total_s"].min()
    for row in runs.itertuples():
        assert row.total_s == fastest[row.variant, row.n]
        assert row.after_total_s == fastest["sgemm_top", row.n]
