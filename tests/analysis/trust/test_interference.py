"""Traffic of a host's other GPUs: ratios and verdicts of pairs of runs."""

import numpy as np
import pandas as pd
import pytest

from analysis.data import recordings as data
from analysis.trust import interference
from measurement.recording.recording import CELL, TABLES, read
from tests.support.simulated import FEW, recorded

pytestmark = pytest.mark.slow


def passes(alone, beside, count=1, kernel=1.0, n=1024):
    """Return the pairs of one cell of size n with these times of the copy to the GPU."""
    key = ("gpu0", "block_unroll4", "float32", 1, n, n, n, 32, "pinned", pd.NA)
    sides = []
    for neighbours_, times in ((0, alone), (count, beside)):
        frame = pd.DataFrame({"h2d_s": np.asarray(times, float)})
        frame = frame.assign(in_run_kernel_s=kernel, d2h_s=1.0, neighbours=neighbours_)
        frame["total_s"] = frame[["h2d_s", "in_run_kernel_s", "d2h_s"]].sum(axis=1)
        sides.append(frame.assign(round=range(1, len(frame) + 1)))
    frame = pd.concat(sides).assign(session=0, **dict(zip(CELL, key, strict=True)))
    types = TABLES["neighbours.csv"] | {"session": "Int64", "in_run_kernel_s": "float64"}
    return frame.reindex(columns=list(types)).astype(types)


def compared(*arguments, **options):
    return interference.compare_pairs(passes(*arguments, **options)).set_index("quantity")


def states(seed, pairs=12):
    """Return the slowdown that both runs of each pair share."""
    return np.exp(0.2 * np.random.default_rng(seed).standard_normal(pairs))


def test_a_slowdown_by_traffic_is_found_despite_states_shared_by_both_runs_of_a_pair():
    rng = np.random.default_rng(1)
    state = states(2)
    beside = 1.1 * state * rng.lognormal(0, 0.003, 12)
    rows = compared(state, beside)
    assert rows.at["h2d", "ratio"] == pytest.approx(1.1, rel=0.05)
    assert rows.at["h2d", "ratio"] == np.median(beside) / np.median(state)
    assert rows.at["h2d", "verdict"] == "slower"
    assert rows.at["h2d", "p_differs"] == 2 / 2**12, "all of twelve pairs"
    assert rows.loc[["kernel", "d2h"], "verdict"].tolist() == ["same", "same"]
    # The same runs in other pairs show nothing.
    assert compared(state, np.roll(beside, 5)).at["h2d", "verdict"] == "undecided"
    row = compared(state, 1.2 * state).loc["h2d"]
    assert [row["ratio_low"], row["ratio_high"]] == pytest.approx([1.2, 1.2]), "pairs are resampled"


def test_traffic_without_effect_gives_no_slowdown():
    for seed in range(10):
        rng = np.random.default_rng(seed)
        state = states(seed)
        frames = (passes(*(state * rng.lognormal(0, 0.02, (2, 12))), n=n) for n in range(1, 8))
        assert "slower" not in set(interference.compare_pairs(pd.concat(frames))["verdict"]), seed


def test_only_rounds_with_both_runs_count_as_pairs():
    frame = passes([1.0] * 8, [1.5] * 8)
    frame = frame[~((frame["neighbours"] == 1) & (frame["round"] == 3))]
    assert set(interference.compare_pairs(frame)["pairs"]) == {7}
    frame = frame[frame["neighbours"] == 0]
    assert interference.compare_pairs(frame).empty
    row = compared([1.0] * 5, [2.0] * 5).loc["h2d"]  # below six pairs nothing is claimed
    assert (row["ratio"], row["verdict"]) == (2, "undecided")
    assert row[["ratio_low", "p_differs", "q_same", "isolated_low_s"]].isna().all()
    # Seven of seven pairs: enough among four comparisons, too little among fifty.
    alone = np.linspace(1, 1.2, 7)
    slower, others = passes(alone, alone * 1.1), range(1, 13)
    among = pd.concat([slower, *(passes(alone, alone[::-1], n=n) for n in others)])
    for frame, verdict in ((slower, "slower"), (among, "undecided")):
        found = interference.compare_pairs(frame).set_index(["n", "quantity"])
        assert found.at[(1024, "h2d"), "verdict"] == verdict


def test_only_hosts_with_two_gpus_have_rows_of_interference(gpu_recording, cpu_recording):
    two = read(recorded(gpus=2, sizes=(256, 512), holdout=(), variants=FEW))
    found = data.sources({"two": two, "card": gpu_recording, "host": cpu_recording})
    table = interference.interference_table(found)
    assert (set(table["gpu"]), len(table)) == ({"two-gpu0", "two-gpu1"}, 2 * 2 * 2 * 4)
    said = table.groupby(["host_memory", "quantity"])["verdict"].agg(set)
    assert said["pageable", "h2d"] == said["pageable", "d2h"] == {"slower"}
    assert said["pinned", "h2d"] == said["pageable", "kernel"] == {"same"}
    assert interference.interference_table(found[2:]).empty
    shuffled = two.neighbours.sample(frac=1, random_state=1)
    own = [f[f["device"] == "gpu0"] for f in (two.neighbours, shuffled)]
    pd.testing.assert_frame_equal(*map(interference.compare_pairs, own))
