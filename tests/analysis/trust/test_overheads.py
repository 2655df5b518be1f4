"""The state of the GPU and the cost of timing: tables from recordings."""

import numpy as np
import pandas as pd
import pytest

from analysis.data import recordings as data
from analysis.trust import overheads
from measurement.recording.recording import CELL, TABLES, read
from tests.support.simulated import FEW, recorded
from tests.support.simulated_tables import SW_POWER_CAP, SW_THERMAL_SLOWDOWN


@pytest.fixture(scope="module")
def throttled():
    """Two GPUs of one host, three of twelve samples of each cell marked and slower."""
    few = {"sizes": (256, 512), "holdout": (), "variants": FEW}
    return read(recorded(gpus=2, throttled=3, **few))


def sources(*made):
    return data.sources({f"r{index}": one for index, one in enumerate(made)})


def samples(reasons, totals, **state):
    """Return the samples of one cell with these bit masks and total times."""
    parts = ("gpu0", "block", "float32", 1, *[256] * 3, 32, "pinned", None)
    key = dict(zip(CELL, parts, strict=True))
    frame = pd.DataFrame({"throttle_reasons": reasons, "total_s": totals}).assign(**key, **state)
    frame["in_run_kernel_s"] = frame["total_s"] / 2
    types = TABLES["samples.csv.gz"] | {"in_run_kernel_s": "float64"}
    return frame.reindex(columns=list(types)).astype(types)


def test_throttled_samples_are_counted_and_excluded_from_unthrottled_medians():
    masks = [0, SW_POWER_CAP, 0, SW_POWER_CAP | SW_THERMAL_SLOWDOWN, 0, 0, 0, 0]
    clocks = [2000, 1000, 2000, 1500, 2000, 2000, 2000, 2000]
    state = {"sm_clock_hz": np.array(clocks) * 10**6, "memory_clock_hz": 10**9}
    state["temperature_celsius"] = [40, 55, 41, 42, 40, 40, 40, 40]
    state["power_w"] = [300.0, 700, 310, 700, 320, 330, 340, 350]
    row = overheads.telemetry(samples(masks, [1, 9, 2, 9, 3, 4, 5, 6], **state)).iloc[0]
    assert (row["samples"], row["samples_throttled"]) == (8, 2)
    assert row["throttle_reasons"] == "sw_power_cap + sw_thermal_slowdown"
    assert (row["sm_clock_hz"], row["sm_clock_min_hz"]) == (2e9, 1e9)
    assert (row["memory_clock_hz"], row["temperature_max_celsius"]) == (1e9, 55)
    assert row["power_w"] == 335
    assert (row["total_s"], row["total_low_s"], row["total_high_s"]) == (4.5, 1, 9)
    assert (row["unthrottled_total_s"], row["unthrottled_in_run_kernel_s"]) == (3.5, 1.75)
    assert (row["unthrottled_total_low_s"], row["unthrottled_total_high_s"]) == (1, 6)
    row = overheads.telemetry(samples([SW_POWER_CAP] * 6, [1, 2, 3, 4, 5, 6])).iloc[0]
    assert (row["samples_throttled"], row["total_s"]) == (6, 3.5)
    assert row[["unthrottled_total_s", "unthrottled_in_run_kernel_high_s"]].isna().all()
    row = overheads.telemetry(samples([None] * 6, [1, 2, 3, 4, 5, 6])).iloc[0]
    assert row["throttle_reasons"] == ""
    unknown = ["samples_throttled", "sm_clock_hz", "sm_clock_min_hz", "power_w"]
    assert row[[*unknown, "temperature_max_celsius", "unthrottled_total_s"]].isna().all()
    half = overheads.telemetry(samples([None, 0, 0, 0, 0, 0, 0], [9, 1, 2, 3, 4, 5, 6])).iloc[0]
    assert half["samples_throttled"] == 0
