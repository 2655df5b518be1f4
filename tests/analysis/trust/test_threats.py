"""Threats to validity: facts of the recordings, one row per GPU."""

import pytest

from analysis.trust.threats import threats_table
from tests.support.report_data import cpu_cell, gpu_cell, recording, tables

NAMES = ("recordings", "telemetry", "summary", "agreement")


def of(store):
    """Return the table of threats by GPU, or by recording where there is none."""
    table = threats_table({name: store[name] for name in NAMES})
    return table.set_index(table["gpu"].fillna(table["recording"]))


def state(label, n, samples=10, throttled=0, clock=1.5e9, total=1.0, unmarked=1.0):
    clocks = {"samples": samples, "samples_throttled": throttled, "sm_clock_hz": clock}
    return {"gpu": label, "n": n, **clocks, "total_s": total, "unthrottled_total_s": unmarked}


def test_states_intervals_and_agreement_are_counted(tmp_path):
    pair = {"recording_a": "card", "gpu_a": "card", "recording_b": "again", "gpu_b": "again"}
    store = tables(
        tmp_path,
        recordings=[
            recording("card", stale=True, stale_sources="kernels/block.cu", cells_failed=2),
            recording("again", simulated=True, dirty=True),
            recording("host", gpu=False, dirty=False),
        ],
        summary=[
            gpu_cell("card", "block", 512, 0.01),
            gpu_cell("card", "block", 1024, 0.01, spread=0.06),
            gpu_cell("card", "block", 2048, 0.01, spread=None),
            cpu_cell("card", "naive", 512, 0.01, spread=None),
            gpu_cell("again", "block", 512, 0.01),
            cpu_cell("host", "naive", 512, 0.01),
        ],
        telemetry=[
            state("card", 512, throttled=1, clock=1.2e9, unmarked=0.9),
            state("card", 1024, clock=1.98e9, unmarked=1.02),
        ],
        agreement=[pair | {"cells": n, "cells_agreeing": same} for n, same in ((10, 7), (5, 5))],
    )
    told = of(store)
    card = told.loc["card"]
    assert (card["samples"], card["samples_throttled"], card["share_throttled"]) == (20, 1, 0.05)
    assert card["throttling_shift"] == pytest.approx(0.1)
    assert (card["sm_clock_low_hz"], card["sm_clock_high_hz"]) == (1.2e9, 1.98e9)
    columns = ["samples", "samples_throttled", "share_throttled", "sm_clock_low_hz"]
    columns += ["throttling_shift"]
    assert told.loc[["again", "host"], columns].isna().all(axis=None), "not recorded"
    columns = ["end_to_end_cells", "end_to_end_cells_without_interval", "end_to_end_cells_wide"]
    assert told[columns].to_numpy().tolist() == [[4, 2, 1], [1, 0, 0], [1, 0, 0]]
    columns = ["medians_compared", "medians_reproduced"]
    assert told.loc[["card", "again"], columns].to_numpy().tolist() == [[15, 12], [15, 12]]
    assert told.loc["host", columns].isna().all()
    assert told["cells_failed"].tolist() == [2, 0, 0]
    assert told["stale"].tolist() == [True, False, False]
    assert told["simulated"].tolist() == [False, True, False]
    assert told["dirty"].fillna("not known").tolist() == ["not known", True, False]


def test_nothing_measured_leaves_blanks_and_no_recording_no_row(tmp_path):
    told = of(tables(tmp_path / "bare", recordings=[recording("card")])).loc["card"]
    assert told["end_to_end_cells"] == 0
    assert told[["samples", "throttling_shift", "sm_clock_high_hz"]].isna().all()
    assert of(tables(tmp_path / "none")).empty
