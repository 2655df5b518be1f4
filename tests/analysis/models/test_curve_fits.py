"""The curve fits predict times that follow their law, left out and beyond."""

from dataclasses import replace

import numpy as np
import pytest

from analysis.models.curve_fits import curve_fits
from tests.support import model_data

CELLS = model_data.cells()
N = CELLS["n"].to_numpy(dtype=float)
DATA = model_data.times("M0", 0, (0, 0, 0, 0))


def of(log_times):
    return {one.name: one for one in curve_fits(replace(DATA, log_times=log_times), N)}


@pytest.mark.parametrize(
    ("name", "law"),
    [
        ("constant per kernel", lambda kernel, n: np.log(1e-5 + 1e-12 * (kernel + 1) * n**3)),
        ("power law", lambda kernel, n: np.log(1e-11) + (2.5 + kernel / 20) * np.log(n)),
        ("interpolation", lambda kernel, n: np.log(1e-11) + (2.5 + kernel / 20) * np.log(n)),
    ],
)
def test_curve_fits_reproduce_times_that_follow_their_formula(name, law):
    one = of(law(DATA.kernels, N))[name]
    assert np.abs(one.left_out).max() < 1e-4
    kernels, n = np.array([0, 2, 5]), np.array([1536.0, 700.0, 3072.0])
    np.testing.assert_allclose(one.at(kernels, n), law(kernels, n), atol=1e-4)


def test_a_curve_fit_without_a_size_does_not_use_its_time():
    bent = DATA.log_times.copy()
    place = int(np.flatnonzero((DATA.kernels == 3) & (N == 512))[0])
    before = of(bent)
    bent[place] += 1
    after = of(bent)
    for name in ("power law", "interpolation"):
        moved = after[name].left_out - before[name].left_out
        assert (moved[place], moved[DATA.kernels != 3]) == (pytest.approx(-1), pytest.approx(0))
    alone = (DATA.kernels != 3) | (N == 512)
    found = {one.name: one for one in curve_fits(DATA.only(alone), N[alone])}
    row = int(np.flatnonzero((DATA.kernels == 3)[alone])[0])
    assert all(np.isnan(one.left_out[row]) for one in found.values())
    assert np.isnan(found["interpolation"].at(np.array([3]), np.array([700.0]))).all()
    kernels = DATA.kernels.max() + 1
    found = {name: one.parameters for name, one in of(DATA.log_times).items()}
    parameters = {"constant per kernel": kernels + 1, "power law": 2 * kernels}
    assert found == parameters | {"interpolation": len(N)}
