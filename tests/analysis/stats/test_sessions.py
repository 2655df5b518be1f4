"""Intervals over sessions: estimates of known effects, and coverage."""

import numpy as np
import pandas as pd
import pytest

from analysis.stats.estimates import DRAWS, percentile_interval, summarise
from analysis.stats.sessions import LENGTHS, Medians, Sessions, lengths
from benchmarks.sessions_coverage import EFFECTS, simulated
from measurement.recording.recording import CELL, TABLES

TYPES = {name: TABLES["samples.csv.gz"][name] for name in CELL}


def medians(effects, noise=1e-12, kind=None):
    """Return medians with given effects, shape (sessions, cells), and noise of the same shape."""
    session, cell = (part.ravel() for part in np.indices(effects.shape))
    of_cells = np.zeros(effects.shape[1], np.intp) if kind is None else np.asarray(kind)
    noise = np.broadcast_to(noise, effects.shape).ravel()
    return Medians(cell, session, effects.ravel(), noise, of_cells)


def test_an_effect_shared_by_all_cells_has_degrees_of_freedom_of_sessions_less_one():
    found = medians(np.array([[0.1] * 20, [-0.2] * 20, [0.1] * 20])).scatter
    assert found.variance == pytest.approx(0.03)
    assert found.common == pytest.approx(0.03)
    assert found.degrees_of_freedom == pytest.approx(2)
    assert found.cells == 20


def test_effects_of_single_cells_have_degrees_of_freedom_of_all_cells():
    found = medians(0.1 * np.random.default_rng(0).standard_normal((3, 500))).scatter
    assert found.variance == pytest.approx(0.01, rel=0.1)
    assert found.common < 0.001
    assert found.degrees_of_freedom == pytest.approx(1000, rel=0.05)
    assert found.between == pytest.approx(found.variance)


def test_noise_is_subtracted_and_kinds_are_separate():
    effects = np.array([[0.1, 0.3, 0.0], [-0.1, -0.3, 0.0]])
    found = medians(effects, noise=0.005, kind=[0, 1, 1]).scatter
    assert found.variance == pytest.approx([0.02, 0.09])
    assert found.between == pytest.approx([0.015, 0.085])
    assert list(found.cells) == [1, 2]


def test_intervals_by_hand():
    """Two sessions of one cell: t(1) · √(0.02/2) for the mean, t(1) · √(0.02·3/2) for another."""
    one = medians(np.array([[0.1], [-0.1]]))
    assert one.half_widths() == pytest.approx(12.7062 * 0.1, rel=1e-4)
    assert one.half_widths(new_session=True) == pytest.approx(12.7062 * 0.03**0.5, rel=1e-4)


def test_a_cell_without_enough_samples_does_not_count_and_has_no_interval():
    noise = np.array([[1e-6, 1e-6], [1e-6, np.nan]])
    found = medians(np.array([[0.1, 5.0], [-0.1, -5.0]]), noise)
    assert found.scatter.cells == 1
    assert np.isfinite(found.half_widths()[0])
    assert np.isnan(found.half_widths()[1])


def test_one_session_has_no_variance_and_no_interval():
    alone = medians(np.zeros((1, 3)))
    assert np.isnan(alone.scatter.variance).all()
    assert np.isnan(alone.half_widths()).all()
    assert np.isnan(alone.left_out()).all()


@pytest.mark.parametrize("name", EFFECTS)
def test_intervals_of_three_sessions_contain_the_mean_and_a_fourth(name):
    rng = np.random.default_rng(3)
    covered = []
    for _ in range(200):
        every, _ = simulated(rng, 4, *EFFECTS[name])
        last = every.session == 3
        others = every.only(~last)
        miss = np.abs(every.log_s[last] - others.means)
        in_mean = np.abs(others.means) <= others.half_widths()
        covered.append([in_mean, miss <= others.half_widths(new_session=True)])
    assert (np.mean(covered, axis=(0, 2)) > 0.9).all()
    assert (np.mean(covered, axis=(0, 2)) < 0.985).all()


def test_the_interval_of_the_others_contains_a_session_left_out():
    rng = np.random.default_rng(4)
    found = np.concatenate([simulated(rng, 4, 0.03, 0.03, False)[0].left_out() for _ in range(50)])
    assert np.isfinite(found).all()
    assert 0.9 < found.mean() < 0.98
    three = medians(np.vstack([np.zeros((2, 5)), np.full((1, 5), 0.5)]), noise=1e-4).left_out()
    assert not three[-5:].any(), "far from two that agree"
    assert np.isnan(medians(np.zeros((2, 5))).left_out()).all(), "one session has no deviation"


# ---- samples


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


def test_a_time_is_the_geometric_mean_of_the_sessions_medians():
    frame = samples()
    table = Sessions(frame).summary()
    assert list(table) == list(summarise(frame))
    medians = frame.groupby(["m", "session"])["total_s"].median().unstack()
    np.testing.assert_allclose(table["total_s"], np.exp(np.log(medians).mean(axis=1)))
    assert set(table["sessions"]) == {3}
    assert set(table["samples"]) == {36}
    assert (table["total_low_s"] < table["total_s"]).all()
    assert (table["total_s"] < table["total_high_s"]).all()
    assert table["host_s"].isna().all()
    np.testing.assert_allclose(table["overhead_s"], table["total_s"] / 4, rtol=0.01)


def test_a_cell_of_one_session_has_the_interval_within_it():
    frame = samples()
    alone = frame[(frame["m"] != 256) | (frame["session"] == 1)]
    table = Sessions(alone).summary()
    own = summarise(frame[(frame["m"] == 256) & (frame["session"] == 1)]).iloc[0]
    assert table.iloc[0]["sessions"] == 1
    for name in ("total_s", "total_low_s", "total_high_s"):
        assert table.iloc[0][name] == pytest.approx(own[name])
    draws = Sessions(alone).draws("total", "seed")
    widths = np.log(np.divide(*percentile_interval(draws)[::-1]))
    assert widths[0] < 0.5 * widths[1]


def test_draws_are_as_wide_as_the_intervals_and_share_effects_of_sessions():
    found = Sessions(samples())
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


def test_the_order_of_cells_changes_nothing():
    frame = samples()
    in_time = frame.groupby([*CELL, "session"], dropna=False).cumcount()
    shuffled = frame.assign(at=in_time).sample(frac=1, random_state=0)
    shuffled = shuffled.sort_values("at", kind="stable").drop(columns="at")
    pd.testing.assert_frame_equal(Sessions(frame).summary(), Sessions(shuffled).summary())


def test_one_row_per_kind():
    host = samples(seed=1).assign(host_s=1e-4, host_memory="pageable").astype(TYPES)
    found = Sessions(pd.concat([samples(), host])).scatters("total")
    assert found["host_memory"].tolist() == ["pageable", "pinned"]
    assert found["host_work"].tolist() == [True, False]
    assert set(found["length"]) == {"over 1 ms"}
    assert (found["cells"] == 8).all()
    assert (found["medians_evaluated"] == 24).all()
    assert (found["medians_inside"] >= 16).all(), "medians of one session may miss together"
    assert (found["common_log_sd"] > 0.9 * found["between_log_sd"]).all()


def test_lengths_have_their_bounds():
    assert lengths(np.array([1e-6, 5e-5, 5e-4, 1.0])) == [*LENGTHS]
