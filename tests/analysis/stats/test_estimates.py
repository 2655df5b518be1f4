"""Medians, their intervals and draws, and half a unit of the last printed digit."""

from math import comb

import numpy as np
import pandas as pd
import pytest

from analysis.stats import estimates
from analysis.stats.estimates import drawn_cells, drawn_medians, ratio_intervals, summarise
from analysis.stats.rounding import half_unit
from base.intervals import median_interval
from measurement.recording.recording import CELL, TABLES

PARTS = ["total_s", "h2d_s", "in_run_kernel_s", "d2h_s"]


def samples_of(totals, variant="block", device="gpu0", n=256):
    """Samples of one cell: the total is given, the parts take 1/8, 1/2 and 1/8 of it."""
    frame = pd.DataFrame({"total_s": np.asarray(totals, float)})
    parts = [np.nan] * 3 if device == "cpu" else [1 / 8, 1 / 2, 1 / 8]
    for name, share in zip(PARTS[1:], parts, strict=True):
        frame[name] = frame["total_s"] * share
    rest = (None, None, 1) if device == "cpu" else (32, "pinned", None)
    key = dict(zip(CELL, (device, variant, "float32", 1, n, n, n, *rest), strict=True))
    types = {name: TABLES["samples.csv.gz"][name] for name in CELL}
    return frame.assign(host_s=np.nan, **key).astype(types)


def test_medians_and_interval_bounds_are_order_statistics_of_the_samples():
    # Binomial(15, 1/2): P(X <= 3) = 576/32768, so ranks 4 and 12 enclose 96.5 %, 5 and 11 88.2 %.
    row = summarise(samples_of(np.random.default_rng(1).permutation(np.arange(1, 16)))).iloc[0]
    assert [row[f"total{end}"] for end in ("_s", "_low_s", "_high_s")] == [8, 4, 12]
    assert [row[f"in_run_kernel{end}"] for end in ("_s", "_low_s", "_high_s")] == [4, 2, 6]
    assert (row["overhead_s"], row["samples"]) == (2, 15)
    row = summarise(samples_of(range(1, 16)).assign(host_s=0.5)).iloc[0]
    assert (row["host_s"], row["host_low_s"]) == (0.5, 0.5)
    assert row["overhead_s"] == 1.5  # a quarter of 8, less the host work
    assert np.isnan(summarise(samples_of(range(1, 16))).iloc[0]["host_s"])
    six = summarise(samples_of([6, 1, 5, 2, 4, 3])).iloc[0]
    assert (six["total_s"], six["total_low_s"], six["total_high_s"]) == (3.5, 1, 6)
    five = summarise(samples_of([1, 2, 3, 4, 5])).iloc[0]
    assert five["total_s"] == 3
    assert np.isnan([five["total_low_s"], five["total_high_s"]]).all()
    assert np.isnan(drawn_medians(np.arange(5.0), estimates.seeded())).all()
    assert np.isfinite(drawn_medians(np.arange(6.0), estimates.seeded())).all()
    row = summarise(samples_of(range(1, 8), device="cpu")).iloc[0]
    assert row["total_s"] == 4
    assert row[["h2d_s", "in_run_kernel_low_s", "d2h_high_s", "overhead_s"]].isna().all()
    assert row[["block_size", "host_memory"]].isna().all()
    assert summarise(samples_of([])).empty
    assert drawn_cells(samples_of([]), "total_s").shape == (0, estimates.DRAWS)


def test_draws_of_a_cell_do_not_depend_on_the_order_of_cells_or_the_unit(gpu_recording):
    samples = gpu_recording.samples
    mixed = samples.sample(frac=1, random_state=3)
    shuffled = mixed.sort_values("round", kind="stable")  # a cell's samples are a series
    pd.testing.assert_frame_equal(summarise(samples), summarise(shuffled))
    few = samples[samples["n"] == 256]
    orders = (few, few.sample(frac=1, random_state=4))
    np.testing.assert_array_equal(*(drawn_cells(one, "in_run_kernel_s") for one in orders))
    table = summarise(gpu_recording.samples)
    draws = drawn_cells(gpu_recording.samples, "total_s")
    assert draws.shape == (len(table), estimates.DRAWS)
    np.testing.assert_allclose(np.median(draws, axis=1), table["total_s"], rtol=0.02)
    assert not table.duplicated(CELL).any()
    one, other = samples_of(range(10), "block"), samples_of(range(10), "naive")
    both = drawn_cells(pd.concat([one, other]), "total_s")
    np.testing.assert_array_equal(drawn_cells(other, "total_s")[0], both[1])
    assert (both[0] != both[1]).any(), "cells of equal samples are drawn independently"
    one, other = samples_of(range(5, 20), "block"), samples_of(range(30, 50), "naive")
    samples = pd.concat([one, other])
    scaled = samples.assign(**{name: samples[name] * 1024 for name in PARTS})
    times = ["total_s", "total_low_s", "in_run_kernel_high_s", "overhead_s"]
    pd.testing.assert_frame_equal(summarise(samples)[times] * 1024, summarise(scaled)[times])
    before, after = (drawn_cells(s, "total_s") for s in (samples, scaled))
    intervals = (ratio_intervals(draws[:1], draws[1:]) for draws in (before, after))
    np.testing.assert_array_equal(*intervals)


def test_bounds_of_ratios_percentiles_and_predictions_equal_hand_values():
    medians = pd.Series([4.0, 2.0], index=[0, 2])
    draws = np.array([np.full(estimates.DRAWS, 4.0), np.zeros(estimates.DRAWS), range(1, 2001)])
    above, below = (pd.Series(rows, dtype="Int64") for rows in ([0, None, 0], [2, 2, None]))
    ratio, low, high = estimates.ratios(medians, draws, above, below)
    np.testing.assert_array_equal(ratio, [2, np.nan, np.nan])
    np.testing.assert_array_equal(low, [4 / 1950, np.nan, np.nan])
    np.testing.assert_array_equal(high, [4 / 51, np.nan, np.nan])
    draws = np.arange(1.0, 2001.0)
    infinite = np.where(draws > 1900, np.inf, draws)
    for each, bounds in ((draws, [51, 1950]), (infinite, [51, np.inf])):  # 50 below, 50 above
        np.testing.assert_array_equal(estimates.percentile_interval(each), bounds)
    errors = np.arange(1, 20) * np.where(np.arange(19) % 2, 0.1, -0.1)
    assert estimates.conformal(errors) == pytest.approx(1.9), "19 of 20 gaps"
    assert estimates.conformal(np.arange(39) / 1.0) == 37
    assert estimates.conformal(errors[:2]) == pytest.approx(4.302653 * np.sqrt(0.025))
    assert estimates.conformal(np.empty(0)) == np.inf


@pytest.mark.parametrize(
    ("value", "half"), [(0.055, 5e-4), (103.0, 0.5), (340.0, 0.5), (40.8, 0.05), (0.0005, 5e-5)]
)
def test_printed_numbers_are_taken_as_exact_to_half_a_unit_of_the_last_digit(value, half):
    assert half_unit(value) == pytest.approx(half)


@pytest.mark.parametrize("count", [6, 7, 12, 21])
def test_draws_of_a_median_agree_with_its_interval(count, monkeypatch):
    monkeypatch.setattr(estimates, "DRAWS", 100_000)
    values = np.random.default_rng(5).exponential(size=count)
    drawn = drawn_medians(values[::-1], estimates.seeded())
    _, low, high = median_interval(values)
    assert np.mean(drawn < low) + np.mean(drawn > high) <= 0.05, "as much as it leaves outside"
    shares = [np.mean(drawn <= value) for value in np.sort(values)]
    heads = [sum(comb(count, k) for k in range(j)) / 2**count for j in range(1, count + 1)]
    heads[-1] = 1.0
    assert shares == pytest.approx(heads, abs=0.006)


@pytest.mark.exhaustive
def test_intervals_of_ratios_have_their_coverage_and_shared_effects_cancel():
    rng = np.random.default_rng(6)
    covered = 0
    for _ in range(400):
        above = drawn_medians(3 * np.exp(0.05 * rng.standard_normal(20)), rng)
        below = drawn_medians(np.exp(0.10 * rng.standard_normal(15)), rng)
        low, high = ratio_intervals(above[None], below[None])
        covered += low[0] <= 3 <= high[0]
    assert 0.92 <= covered / 400 <= 0.99
    rng, paired = np.random.default_rng(5), estimates.bootstrap_paired_ratios
    shared = rng.lognormal(0, 0.5, 15)
    draws = paired(1.1 * shared, shared, estimates.seeded("pairs"))
    assert draws.shape == (estimates.DRAWS,)
    assert draws == pytest.approx(np.full(estimates.DRAWS, 1.1))
    apart = paired(1.1 * shared, rng.permutation(shared), estimates.seeded("pairs"))
    assert np.ptp(estimates.percentile_interval(apart)) > 0.2
    few, enough = (paired(np.ones(n), np.ones(n), estimates.seeded("pairs")) for n in (5, 6))
    assert np.isnan(few).all()
    assert (enough == 1).all()
