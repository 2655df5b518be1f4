"""The table of sessions: deviations of a GPU's times, and of its CPU once per recording."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.data import recordings as data
from analysis.data.sessions import together
from analysis.overview.answers import answer_sessions_table
from analysis.overview.speedups import speedups_table
from measurement.recording.recording import read
from tests.support.simulated import FEW, recorded

pytestmark = pytest.mark.slow
APART = (1.0, 1.1, 1.21)  # of the times of three sessions


@pytest.fixture(scope="module")
def made():
    """Sessions of two GPUs; end-to-end runs take longer from session to session."""
    few = {"sizes": (256, 512), "holdout": (), "samples": 8, "variants": FEW}
    each = [read(recorded(gpus=2, seed=session, **few)) for session in range(len(APART))]
    totals = [one.samples["total_s"] * slower for one, slower in zip(each, APART, strict=True)]
    pairs = zip(each, totals, strict=True)
    return together([replace(one, samples=one.samples.assign(total_s=t)) for one, t in pairs])


def test_the_speedup_of_an_answer_in_a_session_is_the_ratio_of_its_medians(made):
    source, _ = data.sources({"pair": made})
    speedups = speedups_table([source])
    table = answer_sessions_table([source], speedups)
    assert list(table["session"]) == [0, 1, 2]
    own = speedups[speedups["n"] == 512]
    own = own[own["baseline"] == "cpu_best"]
    best = own.loc[own["speedup"].idxmax()]
    samples = made.samples[(made.samples["n"] == 512) & (made.samples["session"] == 1)]
    medians = []
    for device, prefix in (("gpu0", ""), ("cpu", "baseline_")):
        cell = samples[samples["device"] == device]
        for name in ("variant", "block_size", "threads" if prefix else "host_memory"):
            wanted = best[f"{prefix}{name}"]
            cell = cell[cell[name].isna() if pd.isna(wanted) else cell[name] == wanted]
        medians.append(cell["total_s"].median())
    assert table["speedup"][1] == pytest.approx(medians[1] / medians[0])
    logs = np.log(table["speedup"])
    bounds = np.exp(stats.t.interval(0.95, 2, logs.mean(), stats.sem(logs)))
    assert table.loc[0, ["sessions_low", "sessions_high"]].tolist() == pytest.approx(bounds)
    assert answer_sessions_table(data.sources({"one": made})[:0], speedups).empty
