"""Comparison of models: left-out sizes, verdicts, effects of steps."""

from dataclasses import replace

import numpy as np
import pytest

from analysis.models import comparison as models
from analysis.models.definitions import MODELS
from analysis.stats.fitting import fit, log_model
from tests.support import model_data

NOISE = (0.05, 0.02, 0.02, 0.02)


def fitted(model, data):
    return models.candidate(model, data, fit(data))


def of(model, truth="M2", seed=0, noise=NOISE, **changes):
    """Return a model fitted to times of the true one."""
    data = model_data.times(truth, seed, noise, **changes)
    return fitted(model, replace(data, design=MODELS[model].design(model_data.cells())))


def test_left_out_sizes_are_predicted_from_the_others_by_the_true_model():
    one = of("M2")
    out = one.data.sizes == 3
    rest = one.data.only(~out)
    alone = fit(rest)
    expected = log_model(one.data.design[out], alone.theta) - one.data.log_times[out]
    np.testing.assert_allclose(one.left_out[out], expected, atol=2e-3)
    spoiled = one.data.log_times.copy()
    spoiled[out] += 5
    changed = fitted("M2", replace(one.data, log_times=spoiled))
    same_prediction = changed.left_out[out] + spoiled[out] - one.left_out[out]
    np.testing.assert_allclose(same_prediction, one.data.log_times[out], atol=0.05)
    exact = of("M2", noise=(0, 0, 0, 0))
    assert exact.left_out_log_rms < 1e-6
    assert of("M2").left_out_log_rms < 0.1
    assert of("M0").left_out_log_rms > 0.5


def test_models_are_compared_by_resampling_all_cells_of_a_kernel_together():
    table = models.comparison([of("M0"), of("M1"), of("M2"), of("M3")], 2000).set_index("model")
    assert table.loc["M0", "verdict"] == table.loc["M1", "verdict"] == models.WORSE
    assert set(table.loc[["M2", "M3"], "verdict"]) == {models.BEST, models.NOT_WORSE}
    best = table["left_out_log_rms"].idxmin()
    assert table.loc[best, "verdict"] == models.BEST
    over_best = table["left_out_log_rms"] / table.loc[best, "left_out_log_rms"]
    assert (table["over_best"] == over_best).all()
    assert table.loc[best, ["over_best_low", "over_best_high"]].tolist() == [1, 1]
    assert (table["parameters"].tolist(), set(table["cells"])) == ([2, 3, 3, 4], {38})
    data = model_data.times("M0", 0, NOISE, model_data.cells().query("n == 512"))
    found = models.comparison([fitted("M0", data)], 100)
    assert found["left_out_log_rms"].isna().all(), "a single size cannot be left out"
    assert (found["verdict"].tolist(), found["log_rms"].notna().all()) == ([""], True)
    # An error of one kernel is in some draws several times, and in a third of them not at all.
    data = model_data.times("M0", 0, NOISE)
    one = fitted("M0", data)
    left_out = np.where(data.kernels == 2, 1.0, 1e-6)
    found = models.comparison([models.Candidate("M0", data, one.fit, left_out)], 2000).iloc[0]
    share = np.mean(data.kernels == 2)
    assert found["left_out_log_rms"] == pytest.approx(np.sqrt(share), rel=1e-3)
    assert found["left_out_log_rms_low"] < 1e-5
    assert found["left_out_log_rms_high"] > 1.3 * np.sqrt(share)
