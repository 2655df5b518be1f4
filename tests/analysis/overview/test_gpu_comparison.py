"""GPUs compared: the fastest implementation on each, and its ratio to the first."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from analysis.data import recordings as data
from analysis.data.sessions import together
from analysis.domain import ONE_SESSION
from analysis.overview import gpu_comparison
from analysis.overview.gpu_comparison import FROM_OTHERS, SEVERAL, TOGETHER
from analysis.stats.sessions import DEVICE_MEMORY, L2, LENGTHS
from measurement.recording.recording import read
from tests.support.report_data import frame, only
from tests.support.simulated import FEW, recorded

pytestmark = pytest.mark.slow
NAN = math.nan
SMALL = {"samples": 8, "variants": (*FEW, "register_tile", "cublas_sgemm")}


@pytest.fixture(scope="module")
def recordings():
    """Two GPUs of one model; the kernels of the second take half the time."""
    first = read(recorded(sizes=(256, 512), **SMALL))
    other = read(recorded(sizes=(256, 512, 1024), seed=3, **SMALL))
    halved = other.kernels.assign(kernel_s=other.kernels["kernel_s"] / 2)
    return {"first": first, "other": replace(other, kernels=halved)}


@pytest.fixture(scope="module")
def gpus(recordings):
    return compared(recordings, deviations(1e-4))


def compared(recordings, sessions=(), change=lambda summary: summary):
    sources = data.sources(recordings)
    summary = change(data.summary_table(sources))
    return gpu_comparison.gpu_comparison_table(sources, summary, frame("sessions", list(sessions)))


def deviations(log_sd, degrees_of_freedom=50.0):
    """Return rows of sessions.csv with this deviation for all kinds of cells."""
    totals = product(("total",), ("pinned", "pageable"), LENGTHS, (None,))
    kernels = product(("kernel",), ("pinned", "pageable"), (None,), (L2, DEVICE_MEMORY))
    known = {"recording": "known", "gpu": "known", "sessions": 3, "between_log_sd": log_sd}
    known["degrees_of_freedom"] = degrees_of_freedom
    names = ("quantity", "host_memory", "length", "matrices_in")
    rows = [known | dict(zip(names, kind, strict=True)) for kind in (*totals, *kernels)]
    return [row | {"host_work": False if row["quantity"] == "total" else None} for row in rows]


def test_gpus_are_compared_only_over_candidates_that_both_measured(recordings):
    words = {(0.5, 0.97): "faster", (0.99, 1.01): "same", (1.03, 1.5): "slower"}
    words |= dict.fromkeys([(0.5, 0.99), (0.99, 1.03), (1.01, 1.5)], "undecided")
    words[NAN, NAN] = "no interval"
    assert {each: gpu_comparison.verdict(*each) for each in words} == words
    every = compared(recordings)
    best = every.loc[(every["gpu"] == "other") & (every["n"] == 512), "variant"]
    lost = "variant not in @best or gpu != 'first'"
    found = compared(recordings, (), lambda s: s.query(lost, local_dict={"best": list(best)}))
    both = found[found["ratio"].notna()]
    assert not {*both["variant"]} & set(best)
    assert (both["candidates"] < every["candidates"].max()).all()


def test_each_gpu_has_its_fastest_implementation_and_its_ratio_to_the_first_gpu(gpus, recordings):
    assert not gpus.duplicated(["gpu", "n", "quantity", "host_memory"]).any()
    sizes = {name: set(rows["n"]) for name, rows in gpus.groupby("gpu")}
    assert sizes == {"first": {256, 512, 1536}, "other": {256, 512, 1024, 1536}}
    cells = data.sources(recordings)[0].square_cells.query("n == 512 and host_memory == 'pinned'")
    for quantity in ("total", "kernel"):
        row = only(gpus, gpu="first", n=512, quantity=quantity, host_memory="pinned")
        best = cells.loc[cells[f"{quantity}_s"].idxmin()]
        assert (row["variant"], row["time_s"]) == (best["variant"], best[f"{quantity}_s"])
        assert row["time_high_s"] == best[f"{quantity}_high_s"]
    first = gpus[gpus["gpu"] == "first"]
    assert first[["ratio", "ratio_low", "ratio_high", "verdict"]].isna().all(axis=None)
    single = gpus[(gpus["gpu"] == "other") & (gpus["n"] == 1024)]
    assert (set(first["first"]), set(single["first"])) == ({"first"}, {"other"})
    assert single["ratio"].isna().all()
    both = gpus[gpus["ratio"].notna()]
    assert len(both) == 3 * 3, "kernels have one row, whatever the host memory"
    kernels = both[both["quantity"] == "kernel"]
    assert np.allclose(kernels["ratio"], 0.5, rtol=0.03)
    assert kernels["ratio"].between(kernels["ratio_low"], kernels["ratio_high"]).all()
    assert (set(kernels["verdict"]), set(both["basis"])) == ({"faster"}, {FROM_OTHERS})
    assert (both["sessions"] == 1).all()


def test_a_gpu_with_one_session_uses_the_variation_of_other_gpus_or_gets_no_verdict(
    gpus, recordings, cpu_recording
):
    wide = compared(recordings, deviations(0.1))
    widths = [np.log(each["ratio_high"] / each["ratio_low"]).dropna() for each in (gpus, wide)]
    assert (widths[1] > widths[0]).all()
    # Both GPUs have one session: ± t(50) · √2 · 0.1, and the noise of the samples.
    assert widths[1].median() == pytest.approx(2 * 2.0086 * 2**0.5 * 0.1, rel=0.1)
    few = compared(recordings, deviations(0.1, degrees_of_freedom=2.0))
    assert np.log(few["ratio_high"] / few["ratio_low"]).median() > 1.8 * widths[1].median()
    gpus = compared(recordings)
    both = gpus[gpus["ratio"].notna()]
    assert set(both["basis"]) == set(both["verdict"]) == {ONE_SESSION}
    assert both["ratio_low"].notna().all(), "the interval within the sessions remains"
    for recordings in ({}, {"host": cpu_recording}):
        assert compared(recordings).empty


def test_gpus_with_several_sessions_use_their_own_variation():
    pair = read(recorded(sizes=(256, 512), gpus=2, **SMALL))
    gpus = compared({"pair": pair}, deviations(0.5))
    both = gpus[gpus["ratio"].notna()]
    assert set(both["basis"]) == {TOGETHER}
    assert np.log(both["ratio_high"] / both["ratio_low"]).max() < 0.5
    made = [read(recorded(sizes=(256,), holdout=(), seed=n, **SMALL)) for n in range(4)]
    gpus = compared({"first": together(made[:2]), "other": together(made[2:])})
    both = gpus[gpus["ratio"].notna()]
    assert set(both["basis"]) == {SEVERAL}
    assert (both["sessions"] == 2).all()
    assert both["verdict"].isin(("same", "undecided")).all()


def test_kernels_whose_sources_differ_between_gpus_are_not_compared(recordings):
    first = recordings["first"]
    sources = first.provenance["sources"] | {"kernels/block.cu": "0" * 64}
    changed = recordings | {
        "first": replace(first, provenance=first.provenance | {"sources": sources})
    }
    of_all, of_equal = (compared(each).dropna(subset="ratio") for each in (recordings, changed))
    assert (of_equal["candidates"].to_numpy() < of_all["candidates"].to_numpy()).all()
    assert "block" not in set(of_equal["variant"])
