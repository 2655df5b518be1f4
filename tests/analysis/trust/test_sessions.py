"""The table of sessions: deviations of a GPU's times, and of its CPU once per recording."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from analysis.data import recordings as data
from analysis.data.sessions import together
from analysis.overview.answers import answer_sessions_table
from analysis.overview.speedups import speedups_table
from analysis.schema import TABLES
from analysis.trust.sessions import sessions_table
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


def test_kinds_of_several_sessions_have_their_deviation(gpu_recording, cpu_recording, made):
    alone = read(recorded(sizes=(256,), samples=6, variants=FEW))
    table = sessions_table(data.sources({"pair": made, "alone": alone}))
    assert list(table) == list(TABLES["sessions"].columns)
    assert set(table["recording"]) == {"pair"}, "one session tells of no other"
    assert (table["sessions"] == 3).all()
    on_cpu = table["gpu"].isna()
    assert set(table.loc[~on_cpu, "gpu"]) == {"pair-gpu0", "pair-gpu1"}
    assert set(table.loc[on_cpu, "quantity"]) == {"total"}
    key = ["gpu", "quantity", "host_memory", "host_work", "threads", "length"]
    assert not table.duplicated(key).any(), "the CPU's stand once"
    spread = np.std(np.log(APART), ddof=1)
    totals = table[(table["quantity"] == "total") & (table["cells"] > 10)]
    assert len(totals)
    np.testing.assert_allclose(totals["between_log_sd"].astype(float), spread, rtol=0.1)
    assert (totals["degrees_of_freedom"] < 2.5).all()
    kernels = table[(table["quantity"] == "kernel") & (table["cells"] > 10)]
    assert (kernels["between_log_sd"] < 0.1 * spread).all()
    assert (kernels["mean_interval_factor"] < 1.03).all()
    assert (totals["mean_interval_factor"] > 1.1).all()
    assert (totals["new_session_interval_factor"] > totals["mean_interval_factor"]).all()
    for recordings in ({"card": gpu_recording}, {"host": cpu_recording}, {}):
        assert sessions_table(data.sources(recordings)).empty


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
    assert answer_sessions_table(data.sources({"one": made})[:0], speedups).empty
