"""Intervals of parameters contain the truth as often as they claim."""

from dataclasses import replace

import numpy as np
import pytest

from analysis.models.definitions import MODELS
from analysis.stats import uncertainty
from analysis.stats.fitting import fit
from tests.support import model_data

pytestmark = pytest.mark.slow

# Errors of kernels, of sizes, of cells, of samples.
NOISE = (0.05, 0.02, 0.02, 0.02)
SETS = 100


def estimates(model, data, key, near=None):
    """Return the estimates of a model's parameters, and of its ratio.

    A search that starts at `near`, as at the truth, takes a fifth of the time.
    """
    known = uncertainty.Uncertainty(data, fit(data, near), key)
    names = MODELS[model].parameters
    above, below = (names.index(name) for name in MODELS[model].ratio)
    found = {name: known.parameter(index) for index, name in enumerate(names)}
    return found | {"rho": known.ratio(above, below)}


def truths(model, **changes):
    true = dict(zip(MODELS[model].parameters, model_data.truth(model, **changes), strict=True))
    above, below = MODELS[model].ratio
    return true | {"rho": true[above] / true[below]}


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("model", "noise"), [("M0", NOISE), ("M4", NOISE), ("M8", NOISE), ("M2", (0, 0, 0.05, 0.02))]
)
def test_intervals_contain_the_truth_in_90_to_99_percent_of_data_sets(model, noise):
    covered = dict.fromkeys(truths(model), 0)
    near = model_data.truth(model)
    for seed in range(SETS):
        found = estimates(model, model_data.times(model, seed, noise), seed, near)
        for name, true in truths(model).items():
            assert found[name].low <= found[name].value <= found[name].high
            covered[name] += found[name].low <= true <= found[name].high
    assert all(0.9 * SETS <= count <= 0.99 * SETS for count in covered.values()), covered


@pytest.mark.exhaustive
def test_a_cost_too_small_to_be_measured_gets_a_valid_upper_bound():
    """Shared accesses that cost almost nothing have an upper bound by profile likelihood."""
    bounded, covered = 0, 0
    for seed in range(60):
        found = estimates("M1", model_data.times("M1", seed, NOISE, t_S=1e-16), seed)
        statuses = (found["t_S"].status, found["rho"].status)
        bounded += statuses == (uncertainty.AT_MOST, uncertainty.AT_LEAST)
        covered += found["t_S"].low <= 1e-16 <= found["t_S"].high
        assert found["rho"].method == uncertainty.PROFILE
        assert found["t_S"].high < 1e-13
        assert found["rho"].low > 10
    assert bounded >= 54
    assert covered >= 54


def test_indistinguishable_parameters_have_no_interval():
    """With one block size, global and shared accesses always occur together."""
    cells = model_data.cells()
    frame = cells[(cells["variant"] == "block") & (cells["block_size"] == 32).fillna(False)]
    found = estimates("M0", model_data.times("M0", 0, NOISE, frame), 0)
    assert found["t_G"].status == found["t_S"].status == uncertainty.AT_MOST
    assert found["t_G"].low == found["t_S"].low == 0
    assert found["rho"].status == uncertainty.NOT_DETERMINED
    assert (found["rho"].low, found["rho"].high) == (0, np.inf)
    found = estimates("M0", model_data.times("M0", 0, NOISE, cells[cells["n"] == 512]), 0)
    assert found["rho"].value == pytest.approx(truths("M0")["rho"], rel=0.5)
    assert {one.status for one in found.values()} == {uncertainty.NO_INTERVAL}
    assert np.isnan([found["t_G"].low, found["rho"].high]).all()
    known = {(0.5, 2.0): uncertainty.DETERMINED, (0.0, np.inf): uncertainty.NOT_DETERMINED}
    known |= {(0.0, 2.0): uncertainty.AT_MOST, (0.5, np.inf): uncertainty.AT_LEAST}
    for bounds, status in (known | {(np.nan, np.nan): uncertainty.NO_INTERVAL}).items():
        assert uncertainty.Estimate(1.0, *bounds, uncertainty.BOOTSTRAP).status == status


@pytest.mark.exhaustive
def test_noise_of_samples_widens_the_intervals_of_parameters():
    data = model_data.times("M0", 0, (0, 0, 0, 0))
    assert estimates("M0", data, 0)["rho"].high == pytest.approx(5, rel=1e-4)
    rng = np.random.default_rng(0)
    noise = 0.02 * rng.standard_normal(data.noise.shape)
    widened = replace(data, noise=noise, variance=np.full(len(data.log_times), 0.02**2))
    found = estimates("M0", widened, 0)["rho"]
    # By hand: the slopes of log t by log t_G and log t_S are the shares of each in the time.
    parts = data.design * model_data.truth("M0")
    slopes = parts / parts.sum(axis=1, keepdims=True)
    reach = np.linalg.pinv(slopes)
    sigma = 0.02 * np.linalg.norm(reach[0] - reach[1])
    assert np.log(found.high / found.low) == pytest.approx(2 * 1.96 * sigma, rel=0.06)
