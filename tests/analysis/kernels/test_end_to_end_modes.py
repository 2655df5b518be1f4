"""Runs in pieces and as graphs, compared with the run of the previous step."""

import pandas as pd
import pytest

from analysis.data import recordings as data
from analysis.data.ceilings import pieces_table
from analysis.kernels.ladder import end_to_end_modes_table, ladder_table
from measurement.recording.recording import read
from tests.support import ROOT
from tests.support.report_data import frame, interval, square

SAME = {"gpu": "card", "dtype": "float32", "host_memory": "pinned", **square(2048)}
OF_RUN = SAME | {"variant": "sgemm_top_pieces", "block_size": 64064}
PIECES = OF_RUN | {"after": "sgemm_top", "after_block_size": 128128, "quantity": "total"}
PIECES |= {"time_s": 0.0008, "after_time_s": 0.0013, "verdict": "faster"}
PIECES |= interval("speedup", 1.625, 0.01)
ON_ONE = OF_RUN | {"gpus": 1}
SETTINGS = [
    ON_ONE | {"pieces": 4, "used": False, "copies_s": 0.0004, "run_s": 0.0009},
    ON_ONE | {"pieces": 8, "used": True, "copies_s": 0.0005, "run_s": 0.0007},
    ON_ONE | {"dtype": "float64", "copies_s": 0.0001, "used": False},
    ON_ONE | {"gpus": 2, "variant": "sgemm_tensor_two_gpus", "used": True, "copies_s": 0.0001},
]


def table(ladder, settings=()):
    return end_to_end_modes_table(frame("ladder", ladder), frame("pieces", settings))


@pytest.mark.slow
def test_runs_in_pieces_are_compared_with_the_previous_step_and_with_their_copies():
    (row,) = table([PIECES], SETTINGS).to_dict("records")
    assert (row["total_s"], row["after_total_s"], row["speedup"]) == (0.0008, 0.0013, 1.625)
    assert (row["pieces"], row["copies_s"], row["over_floor"]) == (8, 0.0004, pytest.approx(1.75))
    assert row["is_most_pieces"], "8 of 4 and 8"
    (row,) = table([PIECES]).to_dict("records")
    assert all(pd.isna(row[name]) for name in ("pieces", "copies_s", "over_floor"))
    assert table([PIECES | {"quantity": "kernel"}, PIECES | {"variant": "sgemm_top"}]).empty
    sources = data.sources({"h200": read(ROOT / "data" / "recordings" / "h200-sxm-9")})
    none = [frame(name, []) for name in ("machine_code", "sustained")]
    runs = end_to_end_modes_table(ladder_table(sources, *none), pieces_table(sources))
    of_top = {"sgemm_top_pieces", "sgemm_top_graph", "sgemm_mapped"}
    assert set(runs["variant"]) == of_top | {"sgemm_tensor_pieces", "sgemm_tensor_staged"}
    runs = runs[runs["variant"].isin(of_top)]
    cells = sources[0].cells
    cells = cells[cells["host_memory"] == "pinned"]
    fastest = cells.groupby(["variant", "n"])["total_s"].min()
    for row in runs.itertuples():
        assert row.total_s == fastest[row.variant, row.n]
        assert row.after_total_s == fastest["sgemm_top", row.n]
