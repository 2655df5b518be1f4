"""Models compared with curve fits: unseen data and the intervals of new variants."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from analysis.models import evaluation
from analysis.models.comparison import BEST, candidate
from analysis.models.curve_fits import curve_fits
from analysis.models.definitions import HELD_OUT, UNSEEN
from analysis.stats.fitting import fit
from tests.support import model_data

CELLS = model_data.cells()
NOISE = (0.05, 0.02, 0.02, 0.02)


@cache
def of(model):
    own = replace(model_data.times("M2", 0, NOISE), design=model_data.MODELS[model].design(CELLS))
    return candidate(model, own, fit(own))


def predictions(candidates, role=HELD_OUT):
    """Return the fitted cells as unfitted ones, each predicted 10 % too slow."""
    frame = CELLS.assign(role=role, time_s=1e-3, log_residual=np.log(1.1), in_interval=True)
    return {one.model: frame for one in candidates}


@cache
def evaluated(role=HELD_OUT):
    candidates = [of("M0"), of("M2")]
    plain = curve_fits(candidates[0].data, CELLS["n"].to_numpy(dtype=float))
    return evaluation.evaluate(candidates, plain, CELLS, predictions(candidates, role), 200, "test")


def test_prediction_errors_are_reported_as_factors_and_as_a_share_within():
    found = evaluation.spread(np.array([-3.0, 0.0, 1.0, 0.5]))
    assert found["error_factor"] == pytest.approx(np.exp(np.sqrt(10.25 / 4)))
    assert found["median_factor"] == pytest.approx(np.exp(0.75))
    assert (found["worst_factor"], found["share_within"]) == (np.exp(3.0), 0.75)


def test_every_model_is_evaluated_in_every_test_and_the_true_one_is_best():
    found = evaluated()
    sizes = {"M0", "M2", "constant per kernel", "power law", "interpolation"}
    by_test = found.groupby("test")["model"].agg(set).to_dict()
    assert by_test[evaluation.LEFT_OUT_SIZE] == by_test[evaluation.HELD_OUT_SIZE] == sizes
    assert by_test[evaluation.BLOCK] == by_test[evaluation.VARIANT] == {"M0", "M2"}
    assert (found.groupby("test")["verdict"].agg(lambda each: (each == BEST).sum()) == 1).all()
    assert (found["error_factor"] == np.exp(found["log_rms"])).all()
    assert (found["log_rms_low"] <= found["log_rms_high"]).all()
    blocks = found[found["test"] == evaluation.BLOCK]
    assert set(blocks["cells"]) == {int((CELLS["variant"] == "block").sum())}
    found = found.set_index(["test", "model"])
    assert found.at[(evaluation.BLOCK, "M2"), "verdict"] == BEST
    for test in (evaluation.LEFT_OUT_SIZE, evaluation.BLOCK):
        assert found.at[(test, "M2"), "log_rms"] < 0.15
        assert found.at[(test, "M0"), "log_rms"] > 3 * found.at[(test, "M2"), "log_rms"]


def test_prediction_intervals_cover_variants_that_were_not_fitted():
    held = evaluated().set_index(["test", "model"]).loc[(evaluation.HELD_OUT_SIZE, "M2")]
    assert held["log_rms"] == pytest.approx(np.log(1.1))
    assert (held["cells_inside"], held["inside_share"]) == (len(CELLS), 1)
    never = evaluated(UNSEEN).set_index(["test", "model"]).loc[(evaluation.NEVER, "M2")]
    errors = evaluation.variant_errors(of("M2"), CELLS)
    width = evaluation.half_width(errors, CELLS.groupby("variant").ngroup())
    assert never["interval_factor"] == pytest.approx(np.exp(width))
    one = of("M2")
    own = (CELLS["variant"] == "block").to_numpy()
    errors = evaluation.variant_errors(one, CELLS)
    spoiled = replace(one.data, log_times=one.data.log_times + np.where(own, 3.0, 0.0))
    moved = evaluation.variant_errors(candidate("M2", spoiled, one.fit), CELLS)
    np.testing.assert_allclose(moved[own], errors[own] - 3.0, atol=1e-4)
    # Variants of mean square 0.04 and 0.16, however many their cells: t(2) · √0.1.
    errors = np.array([0.2, -0.2, 0.2, 0.4, np.nan])
    width = evaluation.half_width(errors, np.array([0, 0, 0, 1, 2]))
    assert width == pytest.approx(4.30265 * np.sqrt(0.1), rel=1e-4)
    assert np.isnan(evaluation.half_width(errors[:3], np.zeros(3, int)))
    # Seven variants of four cells; each has an error of its own, and each cell.
    rng = np.random.default_rng(0)
    inside = []
    for _ in range(2000):
        effects = 0.1 * rng.standard_normal(8)
        errors = np.repeat(effects, 4) + 0.05 * rng.standard_normal(32)
        variants = np.repeat(np.arange(8), 4)
        width = evaluation.half_width(errors[:28], variants[:28])
        inside.append(np.abs(errors[28:]) <= width)
    assert 0.93 <= np.mean(inside) <= 0.97
