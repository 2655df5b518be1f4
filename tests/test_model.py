"""M0: its equations, its fit, and how far the fit's intervals can be trusted."""

import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from analysis import published, study
from analysis.fits import FIT_COLUMNS, RESIDUAL_COLUMNS, fit_tables
from analysis.model import fit, m0_eta, m0_times, paired
from analysis.statistics import DRAWS, bootstrap_medians, seeded
from measurement.intervals import median_interval
from measurement.recording import Recording

CSV = study.ROOT / "data" / "published" / "times.csv"
SIZES = (256, 512, 1024, 2048, 4096)
BLOCKS = (1, 2, 4, 8, 16, 32)
T_G = 3e-12
COLUMNS = ["implementation", "n", "block_size", "time_s", "time_low_s", "time_high_s"]


def frame(rows):
    return pd.DataFrame(rows, columns=COLUMNS).astype({"block_size": "Int64"})


def exact(gain, sizes=SIZES):
    """Times without noise or intervals; `gain` of block over naive as a function of B."""
    naive = {n: float(m0_times("naive", n, 1, T_G, 0)) for n in sizes}
    rows = [("gpu_naive", n, None, t, np.nan, np.nan) for n, t in naive.items()]
    for n, t in naive.items():
        rows += [("gpu_block", n, b, t / gain(b), np.nan, np.nan) for b in BLOCKS]
    return frame(rows)


def noisy(seed, rho, scatter, noise, samples=15):
    """M0 times, every cell off by lognormal `scatter`, every sample by `noise`: times and draws."""
    rng = np.random.default_rng(seed)
    rows, draws = [], []
    for n in SIZES:
        for b in (None, *BLOCKS):
            kind = "naive" if b is None else "block"
            cell_s = float(m0_times(kind, n, b or 1, T_G, T_G / rho))
            cell_s *= np.exp(scatter * rng.standard_normal())
            values = cell_s * np.exp(noise * rng.standard_normal(samples))
            rows.append((f"gpu_{kind}", n, b, *median_interval(values)))
            draws.append(bootstrap_medians(values, rng))
    return frame(rows), np.array(draws)


def test_eta_by_hand():
    assert m0_eta(32, 32) == pytest.approx(16)
    assert m0_eta(1, 1) == pytest.approx(0.5)
    np.testing.assert_allclose(m0_eta(3, [1, 3, 6]), [0.75, 1.5, 2])
    np.testing.assert_allclose(m0_eta(np.inf, BLOCKS), BLOCKS, rtol=1e-14)
    np.testing.assert_allclose(m0_eta(5, 1e9), 5, rtol=1e-6)
    np.testing.assert_array_equal(m0_eta(0, BLOCKS), 0)


def test_times_by_hand():
    assert m0_times("naive", 10, 4, 2, 1) == pytest.approx(4000)
    assert m0_times("block", 10, 4, 2, 1) == pytest.approx(2 * 1000 * (2 / 4 + 1))
    assert m0_times("buffered", 10, 4, 2, 1) == pytest.approx(2000 + 200 + 1000)


def test_the_gain_is_the_ratio_of_times_and_the_buffered_one_stays_below_two():
    rho = np.array([[0.1], [3.0], [1000.0]])
    ratio = m0_times("naive", 512, BLOCKS, 1, 1) / m0_times("block", 512, BLOCKS, 1, 1 / rho)
    np.testing.assert_allclose(ratio, m0_eta(rho, BLOCKS), rtol=1e-14)
    gain = m0_times("naive", 512, 1, 1, 1) / m0_times("buffered", 512, 1, 1, 1 / rho)
    np.testing.assert_allclose(gain, 2 / (1 + 1 / 512 + 1 / rho), rtol=1e-14)
    assert (gain < 2).all()


@pytest.mark.parametrize("rho", [0.05, 1.0, 12.0, 400.0])
def test_times_without_noise_give_back_the_parameters(rho):
    result = fit(paired(exact(lambda b: m0_eta(rho, b))))
    assert result.rho.value == pytest.approx(rho, rel=1e-6)
    assert result.t_g.value == pytest.approx(T_G, rel=1e-9)
    assert result.t_s.value == pytest.approx(T_G / rho, rel=1e-6)
    assert result.log_rms < 1e-6
    assert result.rho_bounded
    assert result.rho.low == pytest.approx(result.rho.high, rel=1e-4)


@pytest.mark.parametrize(("scatter", "noise"), [(0.04, 0.03), (0.0, 0.05)])
def test_intervals_cover_the_truth_in_90_to_99_percent_of_200_data_sets(scatter, noise):
    covered = np.zeros(3)
    for seed in range(200):
        rho = (3.0, 32.0, 1000.0)[seed % 3]
        times, draws = noisy(seed, rho, scatter, noise)
        result = fit(paired(times), draws)
        assert rho > 100 or result.rho.value == pytest.approx(rho, rel=0.3)
        truths = (rho, T_G, T_G / rho)
        for k, (estimate, truth) in enumerate(
            zip((result.rho, result.t_g, result.t_s), truths, strict=True)
        ):
            assert estimate.low <= estimate.value <= estimate.high
            covered[k] += estimate.low <= truth <= estimate.high
    assert ((covered >= 180) & (covered <= 198)).all(), covered


def test_rho_of_the_published_gains_is_the_least_squares_of_a_fine_grid():
    pairs = paired(study.published_times(published.read(CSV), 5))
    assert len(pairs) == 21
    grid = np.geomspace(0.1, 1000, 200_001)
    squares = sum(
        np.log(grid * b / (grid + b) / gain) ** 2
        for b, gain in zip(pairs["block_size"].astype(float), pairs["gain"], strict=True)
    )
    result = fit(pairs)
    assert result.rho.value == pytest.approx(grid[np.argmin(squares)], rel=1e-4)
    assert result.log_rms == pytest.approx(np.sqrt(squares.min() / 21), rel=1e-6)
    naive = np.array([0.055, 0.075, 0.21, 1.3]) / (2 * np.array([256, 512, 1024, 2048.0]) ** 3)
    assert result.t_g.value == pytest.approx(np.prod(naive) ** (1 / 4))
    assert result.t_s.value == pytest.approx(result.t_g.value / result.rho.value)
    assert result.rho.low < result.rho.value < result.rho.high


def test_a_precise_cell_does_not_outweigh_a_model_that_is_off():
    rho = 12.0
    times = exact(lambda b: m0_eta(rho, b) * (1.5 if b == 32 else 1 / 1.5 if b == 16 else 1))
    equal = fit(paired(times))
    half = np.where((times["block_size"] == 32).fillna(False), 1e-5, 1e-3)
    narrow = times.assign(
        time_low_s=times["time_s"] * (1 - half), time_high_s=times["time_s"] * (1 + half)
    )
    assert fit(paired(narrow)).rho.value == pytest.approx(equal.rho.value, rel=1e-3)


def test_a_noisy_cell_weighs_less_than_a_precise_one():
    times = exact(lambda b: m0_eta(12, b))
    off = (times["block_size"] == 32).fillna(False)
    times["time_s"] = times["time_s"].where(~off, times["time_s"] * 1.3)
    half = np.where(off, 0.5, 0.001)
    weighted = times.assign(
        time_low_s=times["time_s"] * (1 - half), time_high_s=times["time_s"] * (1 + half)
    )
    assert abs(fit(paired(weighted)).rho.value - 12) < abs(fit(paired(times)).rho.value - 12) / 10


def test_what_the_data_do_not_bound_is_said_so():
    for factor in (1.0, 2.0):
        above = fit(paired(exact(lambda b, factor=factor: factor * b)))
        assert above.rho.value == above.rho.high == np.inf
        assert (above.t_s.value, above.rho_bounded) == (0, False)
    below = fit(paired(exact(lambda b: 1e-5 * b)))
    assert (below.rho.value, below.rho.low, below.rho_bounded) == (0, 0, False)
    assert below.t_s.value == np.inf
    times, draws = noisy(2, 1e5, 0.1, 0.02)
    open_above = fit(paired(times), draws)
    assert 10 < open_above.rho.low < np.inf
    assert open_above.rho.high == np.inf
    assert (open_above.t_s.low, open_above.rho_bounded) == (0, False)


def test_the_lower_bound_of_a_rho_that_gains_cannot_tell_from_infinity_holds():
    covered = 0
    for seed in range(60):
        times, draws = noisy(seed, 1e5, 0.05, 0.02)
        covered += fit(paired(times), draws).rho.low <= 1e5
    assert covered >= 54


def test_one_order_has_a_fit_and_no_interval():
    result = fit(paired(exact(lambda b: m0_eta(12, b), sizes=(512,))))
    assert result.rho.value == pytest.approx(12)
    assert np.isnan([result.rho.low, result.rho.high, result.t_g.low, result.t_s.high]).all()
    assert not result.rho_bounded


def test_the_order_of_rows_changes_nothing_and_the_unit_of_time_scales_t_g_alone():
    times, draws = noisy(2, 12.0, 0.05, 0.02)
    result = fit(paired(times), draws)
    assert fit(paired(times.sample(frac=1, random_state=1)), draws) == result
    assert fit(paired(times).sample(frac=1, random_state=1), draws) == result
    seconds = ["time_s", "time_low_s", "time_high_s"]
    scaled = times.assign(**{name: times[name] * 1000 for name in seconds})
    other = fit(paired(scaled), draws * 1000)
    for name in ("value", "low", "high"):
        assert getattr(other.rho, name) == pytest.approx(getattr(result.rho, name), rel=1e-6)
        assert getattr(other.t_g, name) == pytest.approx(1000 * getattr(result.t_g, name), rel=1e-6)
        assert getattr(other.t_s, name) == pytest.approx(1000 * getattr(result.t_s, name), rel=1e-6)


def test_samples_widen_the_interval_of_cells_that_agree_with_the_model():
    times = exact(lambda b: m0_eta(12, b))
    rng = seeded("widen")
    draws = times["time_s"].to_numpy()[:, None] * np.exp(
        0.02 * rng.standard_normal((len(times), DRAWS))
    )
    result = fit(paired(times), draws)
    # Var log ρ = Σ over cells of (slope·σ)²: by hand, with naive's share common to its order.
    slope = np.array(BLOCKS) / (12 + np.array(BLOCKS))
    weight = slope / (slope**2).sum()
    sigma = 0.02 * np.sqrt(((weight**2).sum() + weight.sum() ** 2) / len(SIZES))
    width = np.log(result.rho.high / result.rho.low)
    assert width == pytest.approx(2 * 1.96 * sigma, rel=0.06)


def test_fits_of_a_recording_find_its_truth_and_leave_out_the_held_out_order(
    gpu_recording: Recording,
):
    sources = study.sources({"card": gpu_recording})
    lines: list[str] = []
    started = time.monotonic()
    fits, residuals = fit_tables(published.read(CSV), sources, lines.append)
    assert time.monotonic() - started < 10
    assert lines == [
        "fit of M0: published, total times",
        "fit of M0: card, kernel times",
        "fit of M0: card, total times",
    ]
    assert list(fits) == FIT_COLUMNS
    assert list(residuals) == RESIDUAL_COLUMNS
    kernel = fits[(fits["source"] == "card") & (fits["quantity"] == "kernel")].iloc[0]
    assert kernel["rho_low"] <= 12 <= kernel["rho_high"]
    assert kernel["rho_high"] / kernel["rho_low"] < 1.05
    assert kernel["t_G_low_s"] <= 2e-12 <= kernel["t_G_high_s"]
    assert kernel["t_S_low_s"] <= 2e-12 / 12 <= kernel["t_S_high_s"]
    assert (kernel["cells"], kernel["samples"]) == (4 + 4 * 6, 28 * 12)
    assert (kernel["draws"], bool(kernel["rho_bounded"])) == (2000, True)
    first = fits.iloc[0]
    assert (first["source"], first["quantity"], first["cells"]) == ("published", "total", 25)
    assert pd.isna(first["samples"])


def test_residuals_cover_every_gain_and_mark_the_held_out_order(gpu_recording: Recording):
    sources = study.sources({"card": gpu_recording})
    _, residuals = fit_tables(published.read(CSV), sources, lambda _: None)
    kernel = residuals[(residuals["source"] == "card") & (residuals["quantity"] == "kernel")]
    assert len(kernel) == 5 * 6
    assert set(kernel.loc[kernel["holdout"], "n"]) == {1536}
    np.testing.assert_allclose(kernel["gain"], kernel["naive_time_s"] / kernel["time_s"])
    truth = m0_eta(12, kernel["block_size"].astype(float))
    np.testing.assert_allclose(kernel["m0_gain"], truth, rtol=0.03)
    np.testing.assert_allclose(
        kernel["log_residual"], np.log(kernel["m0_gain"]) - np.log(kernel["gain"])
    )
    assert ((kernel["gain_low"] < kernel["gain"]) & (kernel["gain"] < kernel["gain_high"])).all()
    printed = residuals[residuals["source"] == "published"]
    assert len(printed) == 21
    assert printed["gain_low"].isna().all()
    total = residuals[(residuals["source"] == "card") & (residuals["quantity"] == "total")]
    assert (total["time_s"].to_numpy() > kernel["time_s"].to_numpy()).all()


def test_held_out_orders_do_not_move_the_fit(make_recording, tmp_path):
    held = make_recording(tmp_path / "held", sizes=(256, 512, 1024), holdout=(1536,))
    spoiled = held.samples.copy()
    rows = (spoiled["n"] == 1536) & (spoiled["variant"] == "block")
    spoiled.loc[rows, ["kernel_s", "total_s"]] *= 7
    printed = published.read(CSV)
    before, after = (
        fit_tables(printed, study.sources({"card": recording}), lambda _: None)[0]
        for recording in (held, replace(held, samples=spoiled))
    )
    pd.testing.assert_frame_equal(before, after)


def test_a_host_without_gpu_has_no_fit(cpu_recording: Recording):
    fits, residuals = fit_tables(
        published.read(CSV), study.sources({"host": cpu_recording}), lambda _: None
    )
    assert set(fits["source"]) == set(residuals["source"]) == {"published"}
