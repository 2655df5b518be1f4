"""Intervals over sessions: estimates of known effects, and coverage."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from analysis.stats.estimates import DRAWS, percentile_interval, summarise
from analysis.stats.hosts import Hosts
from analysis.stats.sessions import Medians, Scatter, Sessions
from measurement.recording.recording import CELL, TABLES

TYPES = {name: TABLES["samples.csv.gz"][name] for name in CELL}


def medians(effects, noise=1e-12, kind=None):
    """Return medians with given effects, shape (sessions, cells), and noise of the same shape."""
    session, cell = (part.ravel() for part in np.indices(effects.shape))
    of_cells = np.zeros(effects.shape[1], np.intp) if kind is None else np.asarray(kind)
    noise = np.broadcast_to(noise, effects.shape).ravel()
    return Medians(cell, session, effects.ravel(), noise, of_cells)


def left_out(every):
    """Return whether the prediction interval of the other sessions contains each median."""
    inside = np.full(len(every.cell), np.nan)
    for session in np.unique(every.session):
        out = every.session == session
        inside[out] = every.only(~out).inside(every.cell[out], every.log_s[out])
    return inside


SHARED = np.array([[0.1], [-0.2], [0.1]])
OWN = 0.1 * np.random.default_rng(0).standard_normal((3, 500))


@pytest.mark.parametrize(
    ("effects", "common", "own"),
    [
        (np.tile(SHARED, 20), 0.03, 0),
        (OWN, 0, 0.01),
        (SHARED + OWN, 0.03, 0.01),
        (SHARED, 0.03, 0),  # one cell cannot tell both apart
        (np.zeros((3, 4)), 0, 0),
    ],
)
def test_variances_of_shared_and_own_session_effects_are_distinguished(effects, common, own):
    found = medians(effects).scatter
    assert found.common == pytest.approx(common, rel=0.1, abs=2e-4)
    assert found.own == pytest.approx(own, rel=0.1, abs=2e-4)
    assert found.between == found.common + found.own
    assert (found.cells, found.degrees_of_freedom) == (effects.shape[1], 2)


def test_reml_variances_equal_those_of_analysis_of_variance_for_balanced_data():
    """With equal noise, and no estimate at 0, REML is the analysis of variance."""
    rng, compared = np.random.default_rng(6), 0
    for _ in range(40):
        sessions, cells = int(rng.integers(2, 9)), int(np.exp(rng.uniform(1, 6)))
        shared, own, noise = *np.exp(rng.uniform(-9, -3, 2)), 1e-6
        effects = shared * rng.standard_normal((sessions, 1))
        effects = effects + np.hypot(own, noise**0.5) * rng.standard_normal((sessions, cells))
        rest = effects - effects.mean(axis=0)
        of_session = rest.mean(axis=1, keepdims=True)
        error = np.sum((rest - of_session) ** 2) / ((sessions - 1) * (cells - 1))
        of_sessions = np.sum(of_session**2) / (sessions - 1) - error / cells
        if min(of_sessions, error - noise) > 1e-3 * error:
            found = medians(effects, noise).scatter
            exact = pytest.approx([of_sessions, error - noise], abs=1e-4 * error, rel=1e-4)
            assert [found.common[0], found.own[0]] == exact
            compared += 1
    assert compared > 20


def test_session_variances_exclude_the_noise_of_samples_and_are_estimated_by_kind():
    """The mean noise, 0.05, exceeds the variance of the medians."""
    rng = np.random.default_rng(1)
    noise = np.tile(np.repeat([1e-6, 0.1], 10), (4, 1))
    loud = np.sqrt(noise / 2) * rng.standard_normal((4, 20))
    found = medians(np.array([[0.02], [-0.02], [0.01], [-0.01]]) + loud, noise).scatter
    assert found.common == pytest.approx(np.var([0.02, -0.02, 0.01, -0.01], ddof=1), rel=0.05)
    effects = np.array([[0.1, 0.3, 0.0], [-0.1, -0.3, 0.0]])
    found = medians(effects, noise=0.005, kind=[0, 1, 1]).scatter
    assert (found.between, list(found.cells)) == (pytest.approx([0.015, 0.085], rel=1e-3), [1, 2])


def test_half_widths_over_sessions_equal_hand_values_and_are_nan_for_one_session():
    """Four sessions of 11 cells: t(3) = 3.1824 for 0.03, t(30) = 2.0423 for 0.01 + 0.02."""
    one = np.ones(1)
    of = Scatter(np.array([11]), np.array([4]), 0.03 * one, 0.01 * one, 0.02 * one)
    half = of.half_widths(np.array([0]), 0.02 * one, 0.25 * one)
    quantile = 2.0423 + (3.1824 - 2.0423) * 0.5**1.25
    assert half == pytest.approx(quantile * 0.06**0.5 / 2, rel=1e-4)
    # Two sessions of one cell: t(1) · √(0.02/2) for the mean, t(1) · √(0.02·3/2) for another.
    one = medians(np.array([[0.1], [-0.1]]))
    assert one.half_widths() == pytest.approx(12.7062 * 0.1, rel=1e-4)
    assert one.half_widths(new_session=True) == pytest.approx(12.7062 * 0.03**0.5, rel=1e-4)
    noise = np.array([[1e-6, 1e-6], [1e-6, np.nan]])
    found = medians(np.array([[0.1, 5.0], [-0.1, -5.0]]), noise)
    assert (found.scatter.cells, np.isnan(found.half_widths()).tolist()) == (1, [False, True])
    alone = medians(np.zeros((1, 3)))
    for values in (alone.scatter.between, alone.half_widths(), left_out(alone)):
        assert np.isnan(values).all()
    three = medians(np.vstack([np.zeros((2, 5)), np.full((1, 5), 0.5)]), noise=1e-4)
    assert not left_out(three)[-5:].any()
    assert np.isnan(left_out(medians(np.zeros((2, 5))))).all(), "one session has no deviation"


@pytest.mark.exhaustive
@pytest.mark.parametrize("sessions", [2, 3, 4, 8])
@pytest.mark.parametrize("ratio", [0.01, 0.1, 0.3, 1, 3, 10, 100])
def test_intervals_have_their_coverage_for_every_share_of_shared_variance(sessions, ratio):
    """The estimate of the shared variance is chi-squared with sessions less one."""
    count = 20_000
    drawn = np.random.default_rng(5).chisquare(sessions - 1, count) / (sessions - 1)
    cells, of = np.full(count, 100), np.full(count, sessions)
    none, own = np.zeros(count), np.ones(count)
    scatter = Scatter(cells, of, ratio * drawn, none, own)
    half = scatter.half_widths(np.arange(count), own, own / sessions)
    deviations = half / np.sqrt((ratio + 1) / sessions)
    assert 0.925 < 1 - 2 * norm.sf(deviations).mean() < 0.975


@pytest.mark.exhaustive
@pytest.mark.parametrize(("shared", "own"), [(0, 0), (0, 0.03), (0.03, 0), (0.03, 0.03)])
def test_intervals_contain_the_true_mean_and_prediction_intervals_a_held_out_session(shared, own):
    rng = np.random.default_rng(3)
    noise = np.tile(np.geomspace(1e-6, 1e-3, 60), (4, 1))
    covered = []
    for _ in range(60):
        effects = shared * rng.standard_normal((4, 1)) + own * rng.standard_normal((4, 60))
        every = medians(effects + np.sqrt(noise) * rng.standard_normal((4, 60)), noise)
        in_mean = np.abs(every.means) <= every.half_widths()
        in_other = left_out(every).reshape(4, 60).mean(axis=0)
        covered.append([np.mean(each.reshape(3, 20), axis=1) for each in (in_mean, in_other)])
    assert ((np.mean(covered, axis=0) > 0.92) & (np.mean(covered, axis=0) < 0.98)).all()


def samples(seed=0, sessions=3, cells=8, shared=0.05, count=12, time_s=5e-3):
    """Return samples of pinned cells of one kernel, with shared effects of sessions."""
    rng = np.random.default_rng(seed)
    frames = []
    for session in range(sessions):
        effect = shared * rng.standard_normal()
        for cell in range(cells):
            key = ("gpu0", "block", "float32", 1, 256 + cell, 256, 256, 32, "pinned", None)
            times = time_s * np.exp(effect + 0.01 * rng.standard_normal(count))
            frame = pd.DataFrame({"total_s": times, "in_run_kernel_s": times / 2, "host_s": np.nan})
            frame = frame.assign(h2d_s=times / 8, d2h_s=times / 8, session=session)
            frames.append(frame.assign(**dict(zip(CELL, key, strict=True))))
    return pd.concat(frames, ignore_index=True).astype(TYPES | {"session": "Int64"})


def test_the_times_and_draws_of_a_cell_are_means_over_its_sessions():
    frame = samples()
    table = Sessions(frame).summary()
    assert list(table) == list(summarise(frame))
    medians = frame.groupby(["m", "session"])["total_s"].median().unstack()
    np.testing.assert_allclose(table["total_s"], np.exp(np.log(medians).mean(axis=1)))
    assert (set(table["sessions"]), set(table["samples"])) == ({3}, {36})
    assert table["total_s"].between(table["total_low_s"], table["total_high_s"], "neither").all()
    assert table["host_s"].isna().all()
    np.testing.assert_allclose(table["overhead_s"], table["total_s"] / 4, rtol=0.01)
    alone = frame[(frame["m"] != 256) | (frame["session"] == 1)]
    table = Sessions(alone).summary()
    own = summarise(frame[(frame["m"] == 256) & (frame["session"] == 1)]).iloc[0]
    assert table.iloc[0]["sessions"] == 1
    for name in ("total_s", "total_low_s", "total_high_s"):
        assert table.iloc[0][name] == pytest.approx(own[name])
    draws = Sessions(alone).draws("total", "seed")
    widths = np.log(np.divide(*percentile_interval(draws)[::-1]))
    assert widths[0] < 0.5 * widths[1]
    found = Sessions(frame := samples())
    draws = found.draws("total", "seed")
    assert draws.shape == (8, DRAWS)
    table = found.summary()
    low, high = percentile_interval(draws)
    widths = np.log(high / low) / np.log(table["total_high_s"] / table["total_low_s"])
    assert np.abs(widths - 1).max() < 0.15
    of_ratio = percentile_interval(draws[0] / draws[1])
    assert np.log(of_ratio[1] / of_ratio[0]) < 0.4 * np.log(high / low)[0]
    np.testing.assert_array_equal(found.draws("total", "seed", np.array([3])), draws[[3]])
    assert (found.draws("total", "other") != draws).any()
    # The order of cells changes nothing.
    in_time = frame.groupby([*CELL, "session"], dropna=False).cumcount()
    shuffled = frame.assign(at=in_time).sample(frac=1, random_state=0)
    shuffled = shuffled.sort_values("at", kind="stable").drop(columns="at")
    pd.testing.assert_frame_equal(Sessions(frame).summary(), Sessions(shuffled).summary())


def test_cells_with_one_sample_in_each_of_several_sessions_have_an_interval():
    frame = samples(sessions=4, cells=2)
    few = frame.groupby(["m", "session"]).head(1)
    medians = Sessions(few).medians("total")
    table, logs = Sessions(few).summary(), medians.log_s.reshape(2, 4)
    half = 3.182446 * logs.std(axis=1, ddof=1) / 2  # Student's t with 3 degrees of freedom
    for end, sign in (("low", -1), ("high", 1)):
        np.testing.assert_allclose(table[f"total_{end}_s"], np.exp(logs.mean(1) + sign * half))
    low, high = percentile_interval(Sessions(few).draws("total", "seed"))
    np.testing.assert_allclose(np.log(high / low), 2 * half, rtol=0.15)
    two = few[few["session"] < 2]
    assert Sessions(two).summary()["total_low_s"].isna().all()
    assert np.isnan(Sessions(two).draws("total", "seed")).all()


def cpu_samples(*effects):
    """Return samples of two programs, on 1 and 8 threads, on hosts with these log effects."""
    frame = samples(sessions=len(effects), shared=0)
    factor = np.exp(np.array(effects))[frame["session"].astype(int)]
    frame = frame.assign(device="cpu", host_memory=None, total_s=frame["total_s"] * factor)
    return pd.concat([frame.assign(threads=each) for each in (1, 8)]).astype(frame.dtypes)


def test_the_variance_between_hosts_is_pooled_and_shared_by_all_programs():
    alike, apart = cpu_samples(0.01, 0, -0.01), cpu_samples(0.3, 0, -0.3)
    hosts = Hosts.of([alike, samples(), apart])
    assert hosts.degrees_of_freedom == 4
    assert hosts.variance == pytest.approx(0.1802 / 4, rel=0.05)
    for frame in (alike, apart):
        several = Sessions(frame, hosts=hosts)
        half = several.medians("total").half_widths()
        assert half == pytest.approx(2.7764 * (hosts.variance / 3) ** 0.5, rel=0.02)
        draws = np.log(several.draws("total", "seed"))
        assert np.diff(percentile_interval(draws), axis=0) == pytest.approx(2 * half[0], rel=0.15)
        assert np.std(draws[0] - draws[-1]) < 0.1 * np.std(draws[0]), "one on 1, one on 8 threads"
    alone = Sessions(alike).medians("total").half_widths()
    assert alone == pytest.approx(4.3027 * 0.01 / 3**0.5, rel=0.3)
    on_gpu = [Sessions(samples(), hosts=each).bounds("total") for each in (hosts, None)]
    np.testing.assert_array_equal(*on_gpu)
