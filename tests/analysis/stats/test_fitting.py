"""Fitting recovers the parameters of simulated times, for any unit and start."""

from dataclasses import replace

import numpy as np
import pytest

from analysis.models.definitions import MODELS
from analysis.stats.fitting import fit, log_model, shares, solve, typical
from tests.support import model_data

EXACT = (0.0, 0.0, 0.0, 0.0)
NOISY = (0.05, 0.02, 0.02, 0.02)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e3])
def test_a_fit_to_noiseless_times_recovers_the_parameters(model, scale):
    changes = {name: scale * model_data.TRUTH[name] for name in MODELS[model].parameters}
    found = fit(model_data.times(model, 0, EXACT, **changes))
    np.testing.assert_allclose(found.theta, model_data.truth(model, **changes), rtol=1e-5)
    assert np.abs(found.residual).max() < 1e-5
    assert found.scatter == 0


@pytest.mark.parametrize("ratio", [0.05, 1.0, 12.0, 400.0])
def test_a_fit_recovers_the_ratio_of_two_costs_over_a_wide_range(ratio):
    found = fit(model_data.times("M0", 0, EXACT, t_S=model_data.TRUTH["t_G"] / ratio))
    assert found.theta[0] / found.theta[1] == pytest.approx(ratio, rel=1e-5)


@pytest.mark.parametrize("model", ["M0", "M3", "M8"])
def test_the_unit_of_time_scales_fitted_parameters_but_not_their_ratios(model):
    in_seconds = model_data.times(model, 3, NOISY)
    in_microseconds = replace(in_seconds, log_times=in_seconds.log_times + np.log(1e6))
    one, other = fit(in_seconds), fit(in_microseconds)
    np.testing.assert_allclose(other.theta, 1e6 * one.theta, rtol=1e-6)
    np.testing.assert_allclose(other.residual, one.residual, atol=1e-7)
    np.testing.assert_allclose(other.weights, one.weights, rtol=1e-5)


def test_a_fit_does_not_depend_on_the_order_of_cells():
    data = model_data.times("M7", 4, NOISY)
    shuffled = np.random.default_rng(0).permutation(len(data.log_times))
    one, other = fit(data), fit(data.only(shuffled))
    np.testing.assert_allclose(other.theta, one.theta, rtol=1e-7)
    np.testing.assert_allclose(other.residual, one.residual[shuffled], atol=1e-8)
    design, theta = model_data.times("M8", 0, EXACT).design, model_data.truth("M8")
    found = shares(design, theta)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    nudged = theta * np.array([1, 1, 1 + 1e-6, 1, 1])
    slope = (log_model(design, nudged) - log_model(design, theta)) / 1e-6
    np.testing.assert_allclose(found[:, 2], slope, rtol=1e-4, atol=1e-9)


def test_a_fit_finds_the_global_minimum_even_if_some_costs_are_zero():
    data = model_data.times("M0", 5, NOISY)
    found = fit(data)
    step = np.exp(np.linspace(-0.2, 0.2, 401))
    grid = found.theta * np.stack(np.meshgrid(step, step, indexing="ij"), axis=-1)
    log_times = np.log(np.einsum("nk,abk->abn", data.design, grid))
    squares = ((log_times - data.log_times) ** 2 @ found.weights).reshape(401, 401)
    assert np.unravel_index(squares.argmin(), squares.shape) == (200, 200)
    assert squares.min() == pytest.approx(found.squares)
    # From the least relative errors, or from equal terms, a search ends at 127.45.
    of_median_cell = typical(np.array([[1.0, 0], [2, 5], [4, 5]]), np.log([8.0, 8.0, 10.0]))
    np.testing.assert_allclose(of_median_cell, [4.0, 1.8])
    design = np.array([[2793, 0], [16240, 0.0006997], [0, 44.24], [0.7943, 0.00564]])
    log_times = np.array([0.533, -6.216, -6.614, -2.016])
    alike = solve(design, log_times, np.ones(4), typical(design, log_times) / 2)
    found = solve(design, log_times, np.ones(4))
    squares = [np.sum((log_model(design, theta) - log_times) ** 2) for theta in (alike, found)]
    assert squares == pytest.approx([127.450, 101.148], abs=1e-3)
    found = fit(model_data.times("M4", 0, EXACT, c_S=0.0))
    assert found.theta[2] == 0
    np.testing.assert_allclose(found.theta[:2], model_data.truth("M4")[:2], rtol=1e-4)


def test_cells_are_weighted_by_their_noise_and_the_error_of_the_model():
    data = model_data.times("M0", 0, EXACT)
    data.log_times[::2] += 0.4
    data.log_times[1::2] -= 0.4
    precise = data.variance.copy()
    precise[::2], precise[1::2] = 1e-10, 1e-6
    equal, weighted = fit(data), fit(replace(data, variance=precise))
    np.testing.assert_allclose(weighted.theta, equal.theta, rtol=1e-3)
    assert weighted.scatter == pytest.approx(np.mean(equal.residual**2), rel=0.1)
    data = model_data.times("M0", 0, EXACT)
    variance = np.full(len(data.log_times), 1e-6)
    data.log_times[-1] += 0.3
    variance[-1] = 0.25
    truth = model_data.truth("M0")
    fits = (fit(replace(data, variance=v)) for v in (variance, np.full(len(variance), 1e-6)))
    noisy, alike = (np.abs(np.log(each.theta / truth)).max() for each in fits)
    assert noisy < alike / 10


@pytest.mark.exhaustive
def test_the_scatter_of_a_model_is_the_variance_beyond_that_of_samples():
    found = [fit(model_data.times("M7", seed, (0, 0, 0.05, 0.02))).scatter for seed in range(30)]
    assert np.sqrt(np.mean(found)) == pytest.approx(0.05, rel=0.1)
    none = [fit(model_data.times("M7", seed, (0, 0, 0, 0.02))).scatter for seed in range(30)]
    assert np.mean(none) < 1e-5
