"""The transfer model recovers known latencies and bandwidths, with their intervals."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import f as fisher

from analysis.data import recordings as data
from analysis.decide.predictors import Copies
from analysis.decide.transfer_tables import END_TO_END, _bandwidth, _used, transfer_tables
from analysis.decide.transfers import KNEE, LINE, Points, fit, interval, leave_one_out
from tests.support.report_data import only

SIZES = 4.0 * np.array([128, 256, 384, 512, 1000, 1024, 2048, 4096]) ** 2
TRUTH = Copies(8e-6, 2e10)


def measured(truth, rng=None, noise=0.02, copies=2, sizes=SIZES):
    """Return copies with the times of `truth`, with log-normal noise."""
    time_s = truth.time_s(copies, sizes)
    factor = 1.0 if rng is None else np.exp(noise * rng.standard_normal(len(sizes)))
    return Points(copies, sizes, time_s * factor)


@given(latency=st.floats(1e-7, 1e-3), bytes_per_s=st.floats(1e8, 1e11), copies=st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_copies_without_noise_give_their_exact_latency_and_bandwidth(latency, bytes_per_s, copies):
    # The smallest copies show the latency, the largest the bandwidth.
    sizes = latency * bytes_per_s * np.geomspace(0.01, 100, 8)
    found = fit(measured(Copies(latency, bytes_per_s), copies=copies, sizes=sizes), LINE)
    assert found.latency_s == pytest.approx(latency, rel=1e-3)
    assert found.bytes_per_s == pytest.approx(bytes_per_s, rel=1e-3)


@pytest.mark.exhaustive
def test_intervals_cover_the_true_latency_and_bandwidth():
    inside = {"latency_s": 0, "bytes_per_s": 0}
    for seed in range(200):
        points = measured(TRUTH, np.random.default_rng(seed))
        best = fit(points, LINE)
        for name in inside:
            low, high = interval(points, best, name)
            assert low < getattr(best, name) < high
            inside[name] += low <= getattr(TRUTH, name) <= high
    assert all(180 <= count <= 198 for count in inside.values()), inside


def test_the_fit_finds_a_knee_and_does_not_depend_on_the_unit_of_time():
    points = measured(TRUTH, np.random.default_rng(1))
    best = fit(points, LINE)
    slower = fit(Points(points.copies, points.size_bytes, 1e3 * points.time_s), LINE)
    assert slower.latency_s == pytest.approx(1e3 * best.latency_s, rel=1e-3)
    assert slower.bytes_per_s == pytest.approx(best.bytes_per_s / 1e3, rel=1e-4)
    points = measured(Copies(5e-6, 1.5e10, 4e6, 5e9), np.random.default_rng(3), noise=0.01)
    line, knee = (fit(points, model) for model in (LINE, KNEE))
    assert knee.knee_bytes == pytest.approx(4e6, rel=0.3)
    assert knee.bytes_per_s == pytest.approx(1.5e10, rel=0.1)
    assert knee.beyond_bytes_per_s == pytest.approx(5e9, rel=0.1)
    errors = [float(np.sqrt(np.mean(leave_one_out(points, one) ** 2))) for one in (line, knee)]
    assert errors[1] < 0.5 * errors[0]
    points = measured(TRUTH)
    points.time_s[3] *= 2  # which its own prediction does not use
    assert leave_one_out(points, fit(points, LINE))[3] == pytest.approx(-math.log(2), abs=1e-3)


def test_predictions_use_the_knee_only_where_it_is_clearly_better():
    line = {"model": LINE, "left_out_log_rms": 0.1}
    for error, used in ((0.05, KNEE), (0.099, LINE), (0.2, LINE)):
        assert _used([line, {"model": KNEE, "left_out_log_rms": error}]) == used
    assert (_used([line]), _used([])) == (LINE, None)


def without_latency(noise, exponent):
    """Return copies that, as noise may, show no latency, and their fit."""
    points = measured(Copies(0.0, 1e10), np.random.default_rng(2), noise)
    bent_s = points.time_s * (SIZES / SIZES[0]) ** exponent
    points = Points(points.copies, points.size_bytes, bent_s)
    best = fit(points, LINE)
    assert best.latency_s == 0
    return points, best


def test_copies_without_latency_have_an_interval_that_begins_at_zero():
    points, best = without_latency(0.02, 0.02)
    low, high = interval(points, best, "latency_s")
    assert low == 0
    assert 0 < high < 1e-5
    low, high = interval(points, best, "bytes_per_s")
    assert low < best.bytes_per_s < high
    points = measured(Copies(0.0, 2.4e10))
    low, high = interval(points, fit(points, LINE), "latency_s")
    assert low == 0
    assert high < 1e-9
    # The interval is that of the profile: a higher bandwidth leaves room for a latency.
    points, best = without_latency(0.05, 0.01)
    degrees_of_freedom = len(SIZES) - 2
    least = np.sum(points.log_ratios(best) ** 2)
    limit = least * (1 + fisher.ppf(0.95, 1, degrees_of_freedom) / degrees_of_freedom)
    latencies = np.concatenate([[0], np.geomspace(1e-8, 1e-5, 500)])
    speeds = best.bytes_per_s * np.exp(np.linspace(-0.2, 0.2, 801))
    models = (2 * latencies[:, None] + SIZES / speeds[:, None, None]) / points.time_s
    inside = speeds[np.sum(np.log(models) ** 2, axis=2).min(axis=1) <= limit]
    low, high = interval(points, best, "bytes_per_s")
    assert (low, high) == pytest.approx((inside[0], inside[-1]), rel=1e-3)


@given(st.floats(1, 1e9), st.floats(1, 1e9))
def test_a_fitted_copy_of_more_bytes_never_takes_less_time(a, b):
    model = Copies(1e-6, 1e10, 1e6, 5e9)
    small, large = (float(model.time_s(2, size)) for size in sorted((a, b)))
    assert small <= large
    assert model.time_s(2, 1e6) == pytest.approx(2e-6 + 1e-4)
    assert model.time_s(2, 3e6) == pytest.approx(2e-6 + 1e-4 + 4e-4), "beyond the knee"
    assert Copies(1e-6, 1e10).time_s(1, 3e6) == pytest.approx(1e-6 + 3e-4)


@pytest.fixture(scope="module")
def tables(gpu_recording):
    return transfer_tables(data.sources({"card": gpu_recording}))


@pytest.mark.parametrize(("memory", "bytes_per_s"), [("pinned", 24e9), ("pageable", 6e9)])
@pytest.mark.parametrize("direction", ["h2d", "d2h"])
def test_the_fit_recovers_the_bandwidth_of_a_recording(tables, memory, bytes_per_s, direction):
    found = only(tables[0], host_memory=memory, direction=direction, data=END_TO_END, model=LINE)
    assert found["bytes_per_low_s"] <= bytes_per_s <= found["bytes_per_high_s"]
    assert found["bytes_per_s"] == pytest.approx(bytes_per_s, rel=0.02)
    assert found["latency_s"] < 2e-6, "the simulated GPU has none"
    assert (found["used"], found["holdout_sizes"]) == (True, 1)
    assert found["holdout_log_rms"] < 0.02


@pytest.mark.parametrize(("bytes_per_s", "is_shown"), [(2e10, True), (5e20, False)])
def test_a_bandwidth_that_the_data_do_not_determine_is_blank(bytes_per_s, is_shown):
    fitted = Copies(1e-5, bytes_per_s, knee_bytes=4e5)
    assert math.isnan(_bandwidth(fitted, 1e8)) is not is_shown
