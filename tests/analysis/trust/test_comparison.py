"""Comparison of recordings: ratios, verdicts, agreement of one GPU model, the command."""

import itertools
import re
import shutil
import subprocess
from dataclasses import replace
from functools import reduce
from math import log
from pathlib import Path
from xml.etree.ElementTree import fromstring

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy import stats

from analysis.data.recordings import ROOT
from analysis.stats import between, significance
from analysis.stats.estimates import median_variance
from analysis.trust import comparison, comparison_text
from base.errors import StudyError
from kernels.catalog.locations import LOCATIONS
from measurement.recording import recording
from measurement.recording.recording import CELL, KERNEL, Recording, read
from tests.support import simulated
from tests.support.compilers import program
from tests.support.report_data import rewritten
from tests.support.simulated import FEW

pytestmark = pytest.mark.slow

FEW_CELLS = {"sizes": (256,), "holdout": (), "variants": FEW}
STUDY = {
    "devices": [{"device": "gpu0", "name": "Card"}],
    "host": {"cpu_model": "CPU"},
    "software": {"driver": "1"},
    "compile": {"nvcc_flags": []},
    "sources": {"kernels/block.cu": "0" * 64, "cpu_reference/naive.c": "1" * 64},
}


@pytest.fixture(scope="module")
def gpu_recording():
    """A recording of few kernels."""
    return recording.read(simulated.recorded(**FEW_CELLS | {"sizes": (256, 512)}))


def cell(times, kernel=None, device="gpu0", n=256, location="pinned"):
    """Return the samples of one cell: total times and, on a GPU, kernel times."""
    on_cpu = device == "cpu"
    frame = pd.DataFrame({"total_s": np.asarray(times, float)})
    in_run = frame["total_s"] if kernel is None else kernel
    frame["in_run_kernel_s"] = np.nan if on_cpu else in_run
    rest = (None, None, 1) if on_cpu else (32, location, None)
    key = (device, "block", "float32", 1, n, n, n, *rest)
    types = {name: recording.TABLES["samples.csv.gz"][name] for name in CELL}
    return frame.assign(**dict(zip(CELL, key, strict=True))).astype(types)


def recorded(*cells, **provenance) -> Recording:
    """Return a recording in memory of these cells; kernel-only times are those of the runs."""
    empty = [pd.DataFrame(columns=KERNEL)] * (len(recording.TABLES) - 1)
    samples = pd.concat(cells).assign(host_s=np.nan, session=0)
    alone = samples.rename(columns={"in_run_kernel_s": "kernel_s"})
    kernels = alone.loc[alone["device"] != "cpu", [*KERNEL, "session", "kernel_s"]]
    made = Recording(Path("memory"), STUDY | provenance, samples, *empty)
    return replace(made, kernels=kernels)


def compared(a, b, threshold=0.02):
    """Compare recordings, or the times of one CPU cell."""
    if not isinstance(a, Recording):
        a, b = (recorded(cell(times, device="cpu")) for times in (a, b))
    return comparison.compare(a, b, threshold)


def slowed(original: Recording, variant: str, factor: float, whole: bool = False) -> Recording:
    """Return the recording with the kernel times of a GPU variant multiplied, or all its times."""
    samples, kernels = original.samples.copy(), original.kernels.copy()
    rows = (samples["variant"] == variant) & (samples["device"] != "cpu")
    added = samples.loc[rows, "total_s" if whole else "in_run_kernel_s"] * (factor - 1)
    samples.loc[rows, "total_s"] += added
    samples.loc[rows, "in_run_kernel_s"] *= factor
    if len(kernels):
        kernels.loc[kernels["variant"] == variant, "kernel_s"] *= factor
    return replace(original, samples=samples, kernels=kernels)


TIMES = 1e-3 * np.random.default_rng(3).lognormal(0, 0.002, 15)


def test_the_ratio_of_the_medians_has_an_interval():
    a = recorded(cell([1, 2, 3, 4, 5, 6, 7], kernel=[1, 1, 1, 2, 3, 3, 3]))
    b = recorded(cell([9, 1, 8, 2, 7, 3], kernel=[4, 4, 4, 6, 6, 6]))
    rows = compared(a, b).set_index("quantity")
    assert (list(rows.index), rows["median_a_s"].tolist()) == (["total", "kernel"], [4, 2])
    assert (rows["median_b_s"].tolist(), rows["ratio"].tolist()) == ([5, 5], [1.25, 2.5])
    assert (rows["samples_a"].tolist(), rows["samples_b"].tolist()) == ([7, 7], [6, 6])
    times = np.random.default_rng(2).lognormal(0, 0.01, 30)
    row = compared(recorded(cell(times)), recorded(cell(times))).iloc[0]
    assert (row["ratio"], row["p_differs"], row["verdict"]) == (1, 1, "same")
    assert row["ratio_low"] < 0.999
    assert row["ratio_high"] > 1.001
    many = [1.0, 1.1, 0.9, 1.05, 0.95, 1.0]
    for few, is_first in itertools.product(([2.0], [2.0] * 5), (True, False)):
        row = compared(*((few, many) if is_first else (many, few))).iloc[0]
        assert row["verdict"] == "undecided"
        assert row["ratio"] in (0.5, 2)
        assert row[["ratio_low", "ratio_high", "p_differs", "p_same", "q_same"]].isna().all()


def test_intervals_and_p_values_include_the_variation_between_sessions():
    a, b = recorded(cell(TIMES, n=512)), recorded(cell(1.05 * TIMES, n=512))
    row = comparison.compare(a, b, 0.02).set_index("quantity").loc["total"]
    model = between.KNOWN["pinned"]
    noise = model.noise * 2 * median_variance(np.log(TIMES))
    absolute = [model.absolute_s / np.median(each) for each in (TIMES, 1.05 * TIMES)]
    error = (noise + 2 * model.relative**2 + np.sum(np.square(absolute))) ** 0.5
    assert model.freedom == 9, "12 starts in three configurations"

    def above(distance):  # 3 of 100 times vary more
        outlier = stats.t.sf(distance / (error**2 + 2 * model.outlier**2) ** 0.5, 2)
        return 0.97 * stats.t.sf(distance / error, 9) + 0.03 * outlier

    assert above(log(row["ratio_high"] / 1.05)) == pytest.approx(0.025, rel=1e-6)
    assert row["ratio_low"] * row["ratio_high"] == pytest.approx(1.05**2)
    assert row["p_differs"] == pytest.approx(2 * above(log(1.05)), rel=1e-9)
    assert row["p_same"] == pytest.approx(above(log(1.02 / 1.05)), rel=1e-9)


def test_the_variance_between_sessions_falls_with_their_number():
    row = {"kind": "pinned", "explained_low": 1.0, "explained_high": 1.0, "offset_s": 0.0}
    row |= {"clock_factor": 1.0}
    row |= {"median_a_s": 1e-4, "median_b_s": 1e-4, "noise_a": 0.0, "noise_b": 0.0}
    counts = [{"sessions_a": count, "sessions_b": count} for count in (1, 4)]
    frame = pd.DataFrame([row | of_row for of_row in counts])
    found = between.variances(frame, between.KNOWN)
    for part in ("between", "outlier"):
        assert found[part][0] == pytest.approx(4 * found[part][1])
    model = between.KNOWN["pinned"]
    of_one = model.relative**2 + (model.absolute_s / 1e-4) ** 2
    assert found["between"][0] == pytest.approx(2 * of_one)
    unknown = between.variances(frame.assign(clock_factor=np.nan), between.KNOWN)
    more = unknown["between"] - found["between"]
    assert more.tolist() == pytest.approx([2 * between.CLOCK**2, between.CLOCK**2 / 2])


def test_p_values_of_many_comparisons_are_adjusted_by_benjamini_and_hochberg():
    # Section 4.1 of their paper: 15 tests, of which 5 % false discoveries allow the first four.
    p = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344]
    p += [0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0]
    q = significance.adjusted(pd.Series(p))
    assert (q <= 0.05).sum() == 4
    assert q[:5].tolist() == pytest.approx([0.0015, 0.003, 0.0095, 0.035625, 0.0603])
    order = np.random.default_rng(3).permutation(15)
    assert significance.adjusted(pd.Series(np.array(p)[order])).tolist() == q[order].tolist()
    # Comparisons without p do not count.
    q = significance.adjusted(pd.Series([np.nan, 0.01, np.nan, 0.04], index=[5, 3, 2, 9]))
    assert (list(q.index), q[[3, 9]].tolist()) == ([5, 3, 2, 9], [0.02, 0.04])
    assert q[[5, 2]].isna().all()
    assert significance.adjusted(pd.Series([np.nan, np.nan])).isna().all()
    a, b = [1.00, 1.01, 1.02, 0.99, 0.98, 1.0], [1.75, 1.76, 1.77, 1.74, 1.73, 1.75]
    for last, verdict in ((4, "slower"), (30, "undecided")):  # p = 0.01 of 6, of 58 comparisons
        others = [cell(a, device="cpu", n=n) for n in range(2, last)]
        sides = (recorded(cell(own, device="cpu", n=1), *others) for own in (a, b))
        assert set(compared(*sides).query("n == 1")["verdict"]) == {verdict}


def test_a_verdict_needs_significance_and_a_difference_above_the_threshold():
    cases = [
        *((1.03, 0.04, 1.0, "slower"), (1 / 1.03, 0.04, 1.0, "faster")),
        *((1.03, 0.06, 1.0, "undecided"), (1 / 1.03, 0.06, 1.0, "undecided")),  # not significant
        (1.02, 0.04, 1.0, "undecided"),  # not beyond the threshold
        *((1.02, 0.04, 0.04, "same"), (1.0, 1.0, 0.05, "same")),
        (1.01, 1e-9, 0.04, "same"),  # a difference too small to matter
        (1.01, 1e-9, 0.06, "undecided"),
        *((0.9802, 0.04, 1.0, "faster"), (0.981, 0.04, 1.0, "undecided")),  # the limit is 1/1.02
        (1.5, np.nan, np.nan, "undecided"),
    ]
    frame = pd.DataFrame(cases, columns=["ratio", "q_differs", "q_same", "verdict"])
    assert significance.verdicts(frame, 0.02).tolist() == frame["verdict"].tolist()
    a, b = (recorded(cell(factor * TIMES)) for factor in (1, 1.03))
    for threshold, one, other in ((0.02, "slower", "faster"), (0.1, "same", "same")):
        assert set(compared(a, b, threshold)["verdict"]) == {one}
        assert set(compared(b, a, threshold)["verdict"]) == {other}


def test_one_outlier_among_many_kernels_is_not_significant():
    frame = compared(held(TIMES, TIMES), held(TIMES, 1.04 * TIMES)).query("quantity == 'kernel'")
    many = pd.concat([frame, *[frame.assign(ratio=1.0)] * 60], ignore_index=True)
    for same_code, verdict in ((False, "undecided"), (True, "slower")):
        others = many["same_code"].where(many.index == 0, same_code)
        found = comparison.decided(many.assign(same_code=others), 0.02, between.KNOWN)
        assert found["verdict"].tolist() == [verdict, *["same"] * 60]
    moved = comparison.decided(many.assign(ratio=1.02), 0.02, between.KNOWN)
    assert set(moved["verdict"]) == {"slower"}, "so many outliers are improbable"


def kernels_of(times):
    """Return a recording of kernels at N = 1, 2 ..., each with few noise around its time."""
    every = [held(TIMES, one * TIMES / np.median(TIMES), n=n) for n, one in enumerate(times, 1)]
    parts = [(each.samples, each.kernels.assign(n=each.samples["n"].iloc[0])) for each in every]
    samples, kernels = (pd.concat(own, ignore_index=True) for own in zip(*parts, strict=True))
    return replace(every[0], samples=samples, kernels=kernels)


@pytest.mark.exhaustive
def test_a_session_with_longer_launches_does_not_make_kernels_slower():
    times = np.linspace(3e-6, 18e-6, 30)
    for slower in (1, 1.05):  # of all kernels
        frame = compared(kernels_of(times), kernels_of(slower * times + 9e-8))
        kernels = frame[frame["quantity"] == "kernel"]
        assert kernels["offset_s"].to_numpy() == pytest.approx(9e-8, rel=0.01)
        assert kernels["ratio"].to_numpy() == pytest.approx(slower, rel=1e-3)
        assert set(kernels["verdict"]) == {"same" if slower == 1 else "slower"}
        assert (frame.loc[frame["quantity"] == "total", "offset_s"] == 0).all()
    text = "a launch on gpu0 takes 0.09 µs longer in B; ratios do not contain it"
    for offset_s, said in ((9e-8, [text]), (-9e-8, [text.replace("longer", "shorter")]), (0, [])):
        a, b = kernels_of(times), kernels_of(times + offset_s)
        assert comparison_text.notes(a, b, compared(a, b), ([], [])) == said
    slow = np.where(np.arange(30) < 10, 1.3, 1) * times  # of a third of the kernels
    frame = compared(kernels_of(times), kernels_of(slow)).query("quantity == 'kernel'")
    assert (frame["verdict"] == "slower").sum() == 10
    few = compared(kernels_of(times[:9]), kernels_of(times[:9] + 9e-8))
    few = few[few["quantity"] == "kernel"]
    assert few["offset_s"].isna().all()
    assert "slower" not in set(few["verdict"])


def test_a_session_with_a_lower_clock_does_not_make_identical_kernels_slower():
    options = {"sizes": (512, 1024, 2048), "samples": 30, "noise": 0.001, "complete": True}
    a, b = (recording.read(simulated.recorded(**FEW_CELLS | options, seed=n)) for n in (1, 2))

    def kernels_at(clock, of=b):
        slow = replace(of, kernels=of.kernels.assign(kernel_s=of.kernels["kernel_s"] / clock))
        frame = compared(a, slow)
        return slow, frame[frame["quantity"] == "kernel"]

    slow, kernels = kernels_at(1950 / 1980)
    assert kernels["same_code"].all()
    assert kernels["clock_factor"].to_numpy() == pytest.approx(1980 / 1950, rel=1e-3)
    assert "slower" not in set(kernels["verdict"])
    text = "kernels of identical code on gpu0 take 1.5% longer in B, as with another clock"
    said = comparison_text.notes(a, slow, kernels, ([], []))
    assert f"{text}; ratios do not contain it" in said
    _, kernels = kernels_at(1950 / 1980, slowed(b, "block", 1.05))
    assert set(kernels.loc[kernels["verdict"] == "slower", "variant"]) == {"block"}
    _, kernels = kernels_at(1 / 1.05)
    assert "slower" in set(kernels["verdict"]), "no clock step is that long"


def test_an_undecided_comparison_states_the_samples_or_sessions_needed():
    noisy = 1e-3 * np.random.default_rng(4).lognormal(0, 0.05, 15)
    row = compared(held(noisy, TIMES, n=4096), held(1.001 * noisy, TIMES, n=4096)).iloc[0]
    assert row["verdict"] == "undecided"
    assert 20 < row["samples_needed"] < 500
    assert np.isnan(row["sessions_needed"])
    row = compared(TIMES, 1.001 * TIMES).iloc[0]
    assert (row["verdict"], np.isnan(row["samples_needed"])) == ("undecided", True)
    distance, half = abs(log(row["ratio"])), log(row["ratio_high"] / row["ratio"])
    assert row["sessions_needed"] == np.ceil((half / (log(1.02) - distance)) ** 2) > 20


def sessions_of(rng, count, ratio=1.0):
    """Return sessions of 150 CPU products that vary as in the model, with little noise."""
    spread = 1e3 * ratio * np.exp(between.KNOWN["CPU"].relative * rng.standard_normal((count, 150)))
    n = np.repeat(np.arange(1, 151), len(TIMES))
    return [recorded(cell(np.outer(one, TIMES).ravel(), device="cpu", n=n)) for one in spread]


@pytest.mark.exhaustive
def test_several_sessions_per_side_shrink_the_interval_and_it_keeps_its_coverage():
    rng, widths = np.random.default_rng(8), {}
    for count in (1, 4):
        (a, *more_a), (b, *more_b) = (sessions_of(rng, count) for _ in "ab")
        frame = comparison.compare(a, b, 0.02, (more_a, more_b))
        assert set(frame["sessions_a"]) == set(frame["sessions_b"]) == {count}
        assert set(frame["samples_a"]) == {15 * count}
        inside = (frame["ratio_low"] < 1) & (frame["ratio_high"] > 1)
        assert inside.mean() > 0.92
        widths[count] = np.log(frame["ratio_high"] / frame["ratio_low"]).median()
    assert widths[1] / widths[4] == pytest.approx(2, rel=0.02)
    (a, *_), (b, *more_b) = sessions_of(rng, 1), sessions_of(rng, 3)
    uneven = comparison.compare(a, b, 0.02, ([], more_b))
    width = np.log(uneven["ratio_high"] / uneven["ratio_low"]).median()
    assert width / widths[1] == pytest.approx(((1 + 1 / 3) / 2) ** 0.5, rel=0.02)


@pytest.mark.parametrize(
    ("host", "gpu", "attempts", "one"),
    [("a", "b", 1, True), (None, None, 1, False), ("a", "b", 2, False), ("a", None, 1, False)],
)
def test_sessions_since_one_start_have_their_own_smaller_variation(host, gpu, attempts, one):
    """A resumed session may contain two starts of the host."""
    gpus = [{"device": "gpu0", "name": "Card", "machine_start": gpu}]
    facts = {"machine_start": host, "attempts": attempts, "devices": gpus}
    cells = [cell(TIMES), cell(TIMES, device="cpu")]
    rows = compared(recorded(*cells, **facts), recorded(*cells, **facts)).set_index("device")
    assert rows["one_start"].to_dict() == {"gpu0": one, "cpu": host == "a" and attempts == 1}
    other = recorded(*cells, **facts | {"machine_start": "c"})
    assert not comparison.compare(recorded(*cells, **facts), other, 0.02)["one_start"].any()


def test_sessions_since_one_start_of_the_host_are_recognised():
    rows = pd.DataFrame({"side": ["GPU", "host"], "host_memory": "pinned", "one_start": True})
    assert comparison.kinds(rows).tolist() == ["kernel, one start", "pinned, one start"]
    assert comparison.kinds(rows.assign(one_start=False)).tolist() == ["kernel", "pinned"]
    a, b = (read(ROOT / "data" / "calibration" / name) for name in ("h100-a-1", "h100-a-2"))
    frame = comparison.compare(a, b, 0.02)
    assert frame["one_start"].all()
    lines = comparison_text.notes(a, b, frame, ([], []))
    assert (
        lines[1] == f"{len(frame)} times are of one GPU and host since one start, which vary less"
    )


def held(total, kernel, n=256, **ceilings):
    """Return a recording of one cell with kernel-only times, and ceilings of its host."""
    made = recorded(cell(total, n=n))
    key = made.samples[[*KERNEL, "session"]].iloc[:1]
    kernels = key.merge(pd.DataFrame({"kernel_s": kernel}), how="cross")
    known = pd.DataFrame({"quantity": ceilings.keys(), "value": ceilings.values()})
    known = known.assign(device="gpu0", host_memory="pinned", size_bytes=4096, session=0)
    return replace(made, kernels=kernels, ceilings=known.assign(threads=None))


@pytest.mark.parametrize("location", LOCATIONS)
def test_runs_are_compared_for_every_location_of_the_matrices(location):
    sides = [recorded(cell(TIMES, location=location)) for _ in range(2)]
    assert "same" in set(compared(*sides)["verdict"]) <= {"same", "undecided"}


def test_slower_copies_explain_slower_runs_except_in_their_kernels():
    total, kernel = np.linspace(1, 1.01, 20), np.linspace(0.5, 0.51, 20)
    one = held(total, kernel, h2d_bytes_per_s=1e10, d2h_bytes_per_s=2e10)
    slow = held(1.2 * total, kernel, h2d_bytes_per_s=0.7e10, d2h_bytes_per_s=2e10)
    frame = comparison.compare(one, slow, 0.02).set_index("quantity")
    assert frame["side"].to_dict() == {"total": "host", "kernel": "GPU"}
    assert frame["verdict"].to_dict() == {"total": "other hardware", "kernel": "same"}
    assert comparison_text.summary(frame.reset_index(), 0.02).splitlines()[:2] == [
        "GPU: 1 same, 0 faster, 0 slower, 0 undecided",
        "host: 0 same, 0 faster, 0 slower, 0 undecided, 1 other hardware",
    ]
    more = held(1.3 * total, kernel, h2d_bytes_per_s=0.7e10, d2h_bytes_per_s=2e10)
    frame = comparison.compare(one, more, 0.02).set_index("quantity")
    assert frame.at["total", "verdict"] == "slower", "copies are half of a run, so 1.21 at most"
    alike = held(1.3 * total, 1.3 * kernel, h2d_bytes_per_s=1e10, d2h_bytes_per_s=2e10)
    frame = comparison.compare(one, alike, 0.02)
    assert list(frame["verdict"]) == ["slower", "slower"], "hosts that are alike excuse nothing"
    assert noted(one, slow) == [
        "times of B's hardware relative to A's: "
        "copies to the GPU (pinned) 1.429, copies to the host (pinned) 1.000"
    ]


@pytest.mark.parametrize(("empty_s", "verdict"), [(0.8, "other hardware"), (0.008, "slower")])
def test_a_longer_empty_run_explains_at_most_its_own_part_of_a_slower_run(empty_s, verdict):
    total, kernel = np.linspace(1, 1.001, 20), np.linspace(0.1, 0.1001, 20)
    one, slow = (held(f * total, kernel, empty_total_s=1.1 * f * empty_s) for f in (1.0, 1.15))
    assert compared(one, slow).set_index("quantity").at["total", "verdict"] == verdict


@pytest.mark.parametrize(("l2_bytes", "verdict"), [(2**20, "other hardware"), (2**30, "slower")])
def test_slower_device_memory_explains_slower_kernels_that_exceed_the_l2(l2_bytes, verdict):
    sides = [held(TIMES, TIMES, n=4096, dram_latency_s=3e-7)]
    sides += [held(TIMES, 1.016 * TIMES, n=4096, dram_latency_s=3.6e-7)]
    gpu = {"device": "gpu0", "name": "Card", "limits": {"l2_cache_bytes": l2_bytes}}
    sides = [replace(each, provenance=each.provenance | {"devices": [gpu]}) for each in sides]
    assert compared(*sides).set_index("quantity").at["kernel", "verdict"] == verdict
    kernels = sides[1].kernels.assign(kernel_s=sides[1].kernels["kernel_s"] * 1.08)
    slow = compared(sides[0], replace(sides[1], kernels=kernels)).set_index("quantity")
    assert slow.at["kernel", "verdict"] == "slower"


@pytest.mark.exhaustive
def test_recorded_kernels_differ_only_if_their_times_are_raised_by_10_percent():
    whole = recording.read(ROOT / "data" / "recordings" / "h100-sxm-5")
    halves = whole.samples.groupby(CELL, dropna=False)["round"].transform("median")
    early = whole.samples["round"] <= halves
    frame = compared(*(replace(whole, samples=whole.samples[rows]) for rows in (early, ~early)))
    assert len(frame) > 500
    assert set(frame["verdict"]) <= {"same", "undecided"}
    assert (frame["ratio"] < 1 / 1.05).any()  # no verdict follows from it
    whole = replace(whole, samples=whole.samples[whole.samples["n"].isin((512, 2048))])
    variants = {"naive", "block", "block_unroll4", "buffered_column"}
    frame = compared(whole, reduce(lambda made, name: slowed(made, name, 1.1), variants, whole))
    assert set(frame[frame["verdict"] == "slower"]["variant"]) == variants


def test_only_the_variant_that_is_5_percent_slower_is_found():
    options = {"sizes": (512, 2048), "samples": 30, "noise": 0.004, "complete": True}
    a, b = (recording.read(simulated.recorded(**FEW_CELLS | options, seed=n)) for n in (1, 2))
    assert set(compared(a, b)["verdict"]) <= {"same", "undecided"}
    frame = compared(a, slowed(b, "block", 1.05))
    touched = (frame["variant"] == "block") & (frame["quantity"] == "kernel")
    assert set(frame[touched]["verdict"]) == {"slower"}
    assert set(frame[frame["verdict"] == "slower"]["variant"]) == {"block"}
    mirrored = compared(slowed(b, "block", 1.05), a)
    assert set(mirrored[touched]["verdict"]) == {"faster"}
    assert "slower" not in set(mirrored["verdict"])


def test_configurations_of_both_recordings_are_matched_by_device():
    one, two, three = ([base + step / 100 for step in range(6)] for base in (1, 2, 3))
    a = recorded(cell(one, device="gpu0"), cell(one, device="cpu"))
    b = recorded(
        *(cell(one, device="cpu"), cell(three, device="gpu0"), cell(two, device="gpu1")),
        devices=[{"device": "gpu1", "name": "Card"}, {"device": "gpu0", "name": "Card"}],
    )
    rows = compared(a, b).set_index(["device", "quantity"])["ratio"].round(1)
    assert rows.to_dict() == {("cpu", "total"): 1, ("gpu0", "total"): 2, ("gpu0", "kernel"): 2}
    times = [1, 2, 3, 4, 5, 6]
    a = recorded(cell(times, n=1), cell(times, n=2))
    b = recorded(cell(times, n=2), cell(times, n=3))
    assert set(compared(a, b)["n"]) == {2}
    with pytest.raises(StudyError, match="no configuration was timed in both"):
        compared(a, recorded(cell(times, n=3)))


def noted(a, b):
    """Return the notes on two recordings."""
    return comparison_text.notes(a, b, comparison.compare(a, a, 0.02), ([], []))


def test_the_notes_of_compare_name_what_differs():
    a = recorded(cell([1]))
    assert noted(a, a) == []
    b = recorded(
        cell([1]),
        devices=[{"device": "gpu3", "name": "Other", "limits": {"warp_size": 64}}],
        host={"cpu_model": "CPU", "usable_cpus": 4},
        software={"driver": "2", "packages": {"numpy": "3"}},
        compile={"nvcc_flags": ["-O0"]},
        sources={"kernels/block.cu": "2" * 64, "cpu_reference/naive.c": "3" * 64, "x.cu": "4" * 64},
    )
    assert noted(a, b) == [
        "the GPUs at gpu0 differ: name Card / Other",
        "the hosts differ: usable_cpus None / 4",
        "software versions differ: driver 1 / 2",
        "compiler flags differ: nvcc_flags [] / ['-O0']",
        "different sources: naive (cpu_reference/naive.c), block (kernels/block.cu)",
    ]
    assert comparison_text.changed_sources({"gone.cu": "1"}, {"gone.cu": "2"}) == ["gone.cu"]
    assert noted(a, recorded(cell([1]), devices=[])) == ["GPUs: 1 in A, 0 in B"]


def test_the_table_summary_and_exit_status_of_compare_show_what_differs():
    rng = np.random.default_rng(6)

    def side(factors):
        times = ((n, factor * rng.lognormal(0, 0.001, 20) / 1e3) for n, factor in factors.items())
        end = cell([1.0], n=5, device="cpu")
        return recorded(*(cell(own, device="cpu", n=n) for n, own in times), end)

    factors = {1: 1.0, 2: 4.0, 3: 0.1, 4: 2.5}
    frame = compared(side(dict.fromkeys(factors, 1)), side(factors), 1.0)
    lines = comparison_text.table(frame)[1:]
    assert lines[0].split()[:4] == ["device", "variant", "dtype", "shape"]
    assert [(line.split()[3], line.split()[-1]) for line in lines[1:]] == [
        *(("3", "faster"), ("2", "slower"), ("4", "slower"), ("5", "undecided"))
    ]
    assert " ".join(lines[4].split()[4:]) == "1 total 1, 1 1.000 s 1.000 s 1.000 undecided"
    many = comparison_text.table(pd.concat([frame] * 5, ignore_index=True))
    assert (len(many), many[-1]) == (13, "10 more are not the same: see --csv FILE")
    assert comparison_text.summary(frame, 0.02) == (
        "host: 1 same, 1 faster, 2 slower, 1 undecided\n"
        "medians agree within 2 %: 2 of 5 total times (40.0 %)"
    )
    assert comparison_text.table(compared(*[recorded(cell(TIMES))] * 2)) == [], "without rows"
    for verdicts, status in (
        *((["same", "undecided"], 0), (["faster"], 0), (["undecided"], 3)),
        *((["same", "undecided", "other hardware"], 3), (["slower", "undecided", "undecided"], 1)),
    ):
        frame = pd.DataFrame({"verdict": verdicts, "same_code": False})
        assert comparison.status(frame) == status
        same = frame.assign(same_code=True)
        assert (comparison.status(same), comparison.status(same, hardware=True)) == (0, status)


@pytest.fixture
def run(command):
    """Run the command line in this process; return exit status, stdout, stderr."""

    def compare(*arguments):
        done = command("compare", *arguments)
        return done.returncode, done.stdout, done.stderr

    return compare


def test_the_csv_contains_every_comparison_in_full_precision(run, make_recording, tmp_path):
    one = make_recording(tmp_path / "a", **FEW_CELLS)
    other = rewritten(slowed(one, "block", 1.3), tmp_path / "b").path
    assert run(one.path, other)[0] == 0, "the same code"
    status, out, err = run(one.path, other, "--csv", tmp_path / "all.csv", "--hardware")
    assert (status, err) == (1, "")
    table = pd.read_csv(tmp_path / "all.csv", dtype={"block_size": "Int64", "n": "Int64"})
    frame = compared(one, recording.read(other))
    assert list(table.columns) == list(frame.columns)
    for name in ("ratio", "ratio_high", "p_differs", "q_same"):
        assert table[name].tolist() == frame[name].tolist(), name
    assert table["verdict"].value_counts().to_dict() == frame["verdict"].value_counts().to_dict()
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b", "all.csv"}
    slower = (table["verdict"] == "slower").sum()
    assert sum(map(int, re.findall(r"(\d+) slower", out))) == slower
    status, xml, _ = run(one.path, other, "--format", "junit", "--hardware")
    suite = fromstring(xml)
    assert (status, suite.get("failures")) == (1, f"{slower}")
    assert len(suite.findall(".//failure")) == slower
    assert len(suite.findall("testcase")) == len(table) == int(suite.get("tests"))


def test_for_a_kernel_with_changed_code_the_output_lists_what_changed(gpu_recording):
    builds, samples = gpu_recording.builds, gpu_recording.samples
    is_block = (builds["variant"] == "block") & (builds["block_size"] == 32)
    new = {"cubin_sha256": "0" * 64, "registers_per_thread": 200}
    masked = {name: builds[name].mask(is_block, each) for name, each in new.items()}
    slower_clock = samples.assign(sm_clock_hz=samples["sm_clock_hz"] - 10**8)
    other = replace(gpu_recording, builds=builds.assign(**masked), samples=slower_clock)
    frame = compared(gpu_recording, slowed(other, "block", 1.3, whole=True))
    own = frame[~frame["same_code"]]
    assert (set(own["variant"]), set(own["block_size"])) == ({"block"}, {32})
    note = comparison_text.notes(gpu_recording, other, frame, ([], []))[0]
    assert note.startswith(f"identical code in {len(frame) - len(own)} of {len(frame)} times; ")
    (line, *_) = comparison_text.causes(frame, gpu_recording, other)
    assert line.startswith("block float32 B=32: registers ")
    assert line.endswith(" → 200, active warps 32 → 0, MHz 1980 → 1880")
    itself = [gpu_recording] * 2
    assert comparison_text.causes(compared(*itself), *itself) == []


def test_recordings_not_comparable_are_one_line_errors(run, cpu_recording, gpu_recording, tmp_path):
    for one in (cpu_recording, gpu_recording):
        copy = shutil.copytree(one.path, tmp_path / f"copy of {one.path.parent.name}")
        same = f"A and B contain the same samples: {one.path} and {copy}\n"
        assert run(one.path, copy) == (0, same, "")
    bent = rewritten(cpu_recording, tmp_path / "bent").path
    (bent / "samples.csv.gz").write_bytes(b"")
    only_gpu = gpu_recording.samples[gpu_recording.samples["device"] == "gpu0"]
    gpu = rewritten(gpu_recording, tmp_path / "gpu", samples=only_gpu).path
    for arguments, words in [
        ((tmp_path / "nowhere", cpu_recording.path), ["nowhere", "no such folder"]),
        ((cpu_recording.path, bent), ["bent", "samples.csv.gz was altered or truncated"]),
        ((cpu_recording.path, gpu), [cpu_recording.path, gpu, "was timed in both"]),
        ((gpu, gpu, "--csv", tmp_path / "no" / "x.csv"), ["there is no folder", "create it"]),
        ((gpu, gpu, gpu), ["give two recordings, or A1 A2 --against B1 B2"]),
        ((gpu, gpu, "--against", cpu_recording.path), ["contain the same samples", "name one"]),
    ]:
        status, out, err = run(*arguments)
        assert (status, out, err[:7], err.count("\n")) == (2, "", "error: ", 1), err
        assert all(str(word) in err for word in words), err
    assert not (tmp_path / "no").exists()
    for threshold in ("0", "-0.1", "nan", "inf", "much"):
        status, _, err = run("a", "b", f"--threshold={threshold}")
        assert (status, "--threshold" in err) == (2, True)


def test_the_documented_recipe_for_repositories_fails_if_a_kernel_is_slower(command, tmp_path):
    page = (ROOT / "docs" / "how-to" / "guard-a-repository.md").read_text()
    recipe = page.split("```yaml\n")[2].split("```")[0]
    assert recipe.count("\n") <= 15
    recipe = yaml.safe_load(recipe)
    assert recipe["defaults"] == {"run": {"shell": "bash"}}, "with pipefail"
    *_, last = recipe["jobs"]["times"]["steps"]
    base = recording.read(simulated.recorded(**FEW_CELLS, noise=0.001))
    codes = base.builds.assign(cubin_sha256=base.builds["cubin_sha256"].str[::-1])
    slow = slowed(replace(base, builds=codes), "block", 1.3, whole=True)
    # A stand-in of the command keeps its arguments, and repeats what `compare` printed for them.
    program(tmp_path / "gemm-study", 'echo "$@" >arguments; cat out; exit $(cat status)')
    line = {"args": last["run"].replace("gemm-study", "./gemm-study"), "shell": True}
    line |= {"cwd": tmp_path, "capture_output": True, "text": True, "check": False}
    for name, made, status in (("head", slow, 1), ("base", base, 0)):
        folder = rewritten(made, tmp_path / name).path
        for file, path in (("base.txt", base.path), ("head.txt", folder)):
            (tmp_path / file).write_text(f"a line\nrecording: {path}\n")
        subprocess.run(**line)
        done = command(*(tmp_path / "arguments").read_text().split())
        (tmp_path / "out").write_text(done.stdout)
        (tmp_path / "status").write_text(str(done.returncode))
        done = subprocess.run(**line)
        assert done.returncode == status, done.stderr
        assert ("::error title=gemm-study::" in done.stdout) == bool(status)
