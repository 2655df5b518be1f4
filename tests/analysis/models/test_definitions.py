"""The models' formulas, by hand and by their properties."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.models.definitions import MODELS, SOURCE_V, is_modelled, m0_eta, utilisation
from analysis.models.work import COLUMNS

POSITIVE = st.floats(1e-3, 1e6)
BLOCKS = st.integers(1, 32)
SIZES = st.integers(2, 8192)
T_G = 3e-12


@cache
def cell(variant, n, block_size=None, **work):
    """Return one cell as a frame; `work` are its counts, all others are unknown."""
    counts = dict.fromkeys(COLUMNS, np.nan) | work
    row = {"variant": variant, "n": n, "block_size": block_size} | counts
    return pd.DataFrame([row]).astype({"block_size": "Int64"})


def times_s(model, cells, **parameters):
    """Return the times of cells by a model with these parameters."""
    return MODELS[model].design(cells) @ [parameters[name] for name in MODELS[model].parameters]


def time_s(model, cell, **parameters):
    """Return the time of one cell by a model with these parameters."""
    return float(times_s(model, cell, **parameters)[0])


def test_m0_equals_the_formula_of_the_source_for_each_variant_it_describes():
    assert (m0_eta(32, 32), m0_eta(1, 1)) == (pytest.approx(16), pytest.approx(0.5))
    np.testing.assert_allclose(m0_eta(3, [1, 3, 6]), [0.75, 1.5, 2])
    np.testing.assert_allclose(m0_eta(np.inf, [1, 32]), [1, 32], rtol=1e-14)
    np.testing.assert_allclose(m0_eta(5, 1e9), 5, rtol=1e-6)
    np.testing.assert_array_equal(m0_eta(0, [1, 32]), 0)
    lanes = [1 / 32, 1 / 8, 1 / 2, 1, 1, 1, 25 / 32, 49 / 64]  # 25 and 49 threads: one warp and two
    np.testing.assert_allclose(utilisation([1, 2, 4, 8, 16, 32, 5, 7]), lanes)
    costs = {"t_G": 2, "t_S": 1}
    assert time_s("M0", cell("naive", 10, 32), **costs) == 2 * 1000 * 2
    assert time_s("M0", cell("buffered_row", 10), **costs) == 2000 + 200 + 1000
    assert time_s("M0", cell("buffered_column", 10), **costs) == 2000 + 200 + 1000
    assert time_s("M0", cell("block", 10, 4), **costs) == 2 * 1000 * (2 / 4 + 1)
    for name, block in (("naive", 16), ("block_strided", 32), ("block_unroll4", 32)):
        assert not is_modelled(cell(name, 64, block)).any()
        assert np.isnan(MODELS["M0"].design(cell(name, 64, block))).all()
    assert is_modelled(cell("naive", 64, 32)).all()
    assert is_modelled(cell("buffered_row", 64)).all()


@pytest.mark.slow
@given(POSITIVE, BLOCKS, SIZES)
@settings(deadline=None)
def test_m0_speedups_are_ratios_of_times_and_stay_below_two_for_buffered_kernels(rho, block, n):
    costs = {"t_G": T_G, "t_S": T_G / rho}
    kernels = (("naive", 32), ("block", block), ("buffered_row", None))
    cells = pd.concat([cell(name, n, b) for name, b in kernels])
    naive, tiled, buffered = times_s("M0", cells, **costs)
    assert naive / tiled == pytest.approx(float(m0_eta(rho, block)), rel=1e-12)
    assert naive / buffered == pytest.approx(2 / (1 + 1 / n + 1 / rho), rel=1e-12)
    assert naive / buffered < 2


@pytest.mark.slow
@given(POSITIVE, BLOCKS, SIZES, st.floats(1e-9, 1e3))
@settings(deadline=None, max_examples=30)
def test_each_extended_model_equals_m0_if_its_term_is_zero(rho, block, n, t_n):
    costs = {"t_G": T_G, "t_S": T_G / rho, "tau0": 0.0, "t_N": T_G}
    others = (("naive", 32), ("buffered_column", None), ("buffered_row", None))
    tiled = cell("block", n, block)
    four = pd.concat([*(cell(name, n, b) for name, b in others), tiled])
    plain = times_s("M0", four, **costs)
    for model in ("M1", "M2", "M3"):
        assert times_s(model, four, **costs)[:3] == pytest.approx(plain[:3], rel=1e-12)
    assert times_s("M1", four, **(costs | {"tau0": 1.0}))[3] == pytest.approx(plain[3] + 1)
    assert times_s("M2", four, **costs)[3] * utilisation(block) == pytest.approx(plain[3])
    other = costs | {"t_N": t_n}
    for same in (tiled, cell("buffered_row", n)):
        assert time_s("M3", same, **other) == time_s("M2", same, **costs)
    ratios = times_s("M3", four, **(other | {"t_S": 0.0}))
    ratios /= times_s("M2", four, **(costs | {"t_S": 0.0}))
    assert ratios[:2] == pytest.approx(t_n / T_G, rel=1e-9)


def test_models_of_counted_work_recover_known_costs():
    work = {"sectors": 10, "lines": 5, "wavefronts": 7, "instructions": 100, "waits": 3}
    one = cell("block_strided", 64, 32, **work, imbalance=2)
    costs = {"tau0": 1, "c_G": 2, "c_L": 3, "c_S": 4, "c_I": 0.5, "t_B": 6}
    assert time_s("M4", one, **costs) == 1 + 2 * 10 + 4 * 7
    assert time_s("M5", one, **costs) == 1 + 2 * 10 + 4 * 7 + 0.5 * 100
    assert time_s("M6", one, **costs) == 1 + 3 * 5 + 4 * 7
    assert time_s("M7", one, **costs) == 1 + 2 * (3 * 5 + 4 * 7) + 6 * 3
    assert time_s("M8", one, **costs) == 1 + 2 * (3 * 5 + 4 * 7 + 0.5 * 100) + 6 * 3
    unknown = cell("block_strided", 64, 32, **(work | {"instructions": np.nan}), imbalance=2)
    assert np.isnan(time_s("M5", unknown, **costs))
    assert time_s("M4", unknown, **costs) == time_s("M4", one, **costs)
    seen = []
    for name, model in MODELS.items():
        assert model.after is None if name == "M0" else model.after in seen
        assert set(model.ratio) <= set(model.parameters)
        seen.append(name)
    names = {"naive", "buffered_column", "buffered_row", "block", "block_strided"}
    assert set(SOURCE_V) == names | {"block_unroll4", "block_unroll8"}
