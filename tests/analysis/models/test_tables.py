"""The tables of the models, of published times and of a simulated GPU."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from analysis.data import published
from analysis.data import recordings as data
from analysis.kernels import counts, machine_code
from analysis.models.tables import model_tables
from analysis.schema import TABLES
from measurement.recording.recording import read
from tests.support.report_data import PUBLISHED
from tests.support.report_data import only as one
from tests.support.simulated import FEW, recorded

pytestmark = pytest.mark.slow

TIMES = published.read(PUBLISHED)


def tables_of(recordings, times=TIMES[:0], progress=lambda _: None):
    """Return the tables of recordings, by default without published times."""
    sources = data.sources(recordings)
    builds = data.builds_table(recordings), data.instructions_table(recordings)
    code = machine_code.machine_code_table(*builds, counts.counts_table(counts.read([]), []))
    return model_tables(times, sources, code, progress)


@pytest.fixture(scope="module")
def of_card(gpu_recording):
    """The tables of the simulated GPU, which follows M0, and of the published times."""
    lines = []
    found = tables_of({"card": gpu_recording}, TIMES, lines.append)
    said = ("published: modelled", "card: modelled", "card: all")
    assert lines == [f"models of {each} kernels" for each in said]
    return found


def test_a_fit_recovers_the_parameters_of_a_simulated_gpu_that_follows_m0(of_card):
    models = of_card["models"]
    own = models[(models["source"] == "card") & (models["kernels"] == "modelled")]
    rho = one(own, model="M0", parameter="rho")
    assert rho["value"] == pytest.approx(12, rel=0.005)
    assert rho["value_high"] / rho["value_low"] < 1.05
    assert rho["status"] == "determined"
    t_g, t_s = (one(own, model="M0", parameter=name) for name in ("t_G", "t_S"))
    assert t_g["value"] == pytest.approx(2e-12, rel=0.005)
    assert t_s["value"] == pytest.approx(2e-12 / 12, rel=0.005)
    assert rho["value"] == pytest.approx(t_g["value"] / t_s["value"])
    constant = one(own, model="M1", parameter="tau0")
    assert constant["value_high"] < 1e-6
    assert (rho["unit"], t_g["unit"]) == ("", "s")
    # A global access is the work of one multiprocessor of 100, a cache line that of all.
    line = one(own, model="M6", parameter="c_L")
    for row, at_once in ((t_g, 1), (line, 100)):
        assert row["cycles"] == pytest.approx(row["value"] * 1.98e9 * at_once)
    m0 = one(of_card["model_comparison"], source="card", model="M0", kernels="modelled")
    assert m0["left_out_log_rms"] < 0.02
    assert m0["evaluated_within"] == m0["evaluated"] == 25, "from N = 512"
    assert not of_card["model_tests"]["selected_on_this_gpu"].any()
    # 4 sizes of naive and 6 blocks, buffered kernels up to 1024 twice.
    assert m0["cells"] == 34
    # The simulated GPU has machine code of few builds, published GPUs none at all.
    for name in ("models", "model_comparison", "model_predictions"):
        assert list(of_card[name]) == list(TABLES[name].columns)
    compared = of_card["model_comparison"]
    known = compared.groupby(["source", "kernels"], sort=False)["model"].agg(list)
    assert known["published", "modelled"] == ["M0", "M1", "M2", "M3", "M4", "M6"]
    assert known["card", "modelled"] == ["M0", "M1", "M2", "M3", "M4", "M6"]
    assert known["card", "all"] == ["M4", "M6"]
    found = of_card["model_predictions"]
    card = found[found["source"] == "card"]
    held = card[card["role"] == "held out"]
    assert set(held["n"]) == {1536}
    assert set(card.loc[card["role"] == "fitted", "n"]) == {256, 512, 1024, 2048}
    unseen = card[card["role"] == "unseen"]
    assert set(unseen["kernels"]) == {"all"}
    assert {"naive_coalesced", "tile_uncoalesced", "register_tile"} <= set(unseen["variant"])
    assert "cublas_sgemm" not in set(card["variant"])
    assert unseen["model"].nunique() == 1
    plain = card[(card["kernels"] == "modelled") & (card["model"] == "M0")]
    assert set(plain.loc[plain["variant"] == "naive", "block_size"]) == {32}
    errors = np.log(plain["predicted_s"] / plain["time_s"])
    np.testing.assert_allclose(plain["log_residual"], errors)
    assert np.abs(plain["log_residual"]).max() < 0.03
    large = plain[(plain["role"] == "fitted") & (plain["n"] >= 512)]
    worst = large.loc[large["log_residual"].abs().idxmax()]
    assert m0["worst_factor"] == pytest.approx(np.exp(worst["log_residual"]))
    assert (m0["worst_variant"], m0["worst_n"]) == (worst["variant"], worst["n"])
    inside = plain["time_s"].between(plain["predicted_low_s"], plain["predicted_high_s"])
    assert inside.equals(plain["in_interval"].astype(bool))
    assert inside.mean() > 0.9


def test_held_out_sizes_do_not_change_the_fit():
    held = read(recorded(sizes=(256, 512, 1024), holdout=(1536,), variants=FEW))
    spoiled = held.kernels.copy()
    spoiled.loc[(spoiled["n"] == 1536) & (spoiled["variant"] == "block"), "kernel_s"] *= 7
    before, after = (tables_of({"card": r}) for r in (held, replace(held, kernels=spoiled)))
    for name in ("models", "model_comparison"):
        pd.testing.assert_frame_equal(before[name], after[name])
    assert not before["model_predictions"].equals(after["model_predictions"])


def test_models_that_cannot_be_fitted_are_omitted(cpu_recording, gpu_recording):
    """A host without GPU has no model."""
    made = read(recorded(sizes=(512,), holdout=()))
    found = tables_of({"card": made, "host": cpu_recording})
    for name in ("models", "model_comparison", "model_predictions"):
        assert set(found[name]["source"]) == {"card"}
    assert set(found["models"]["status"]) == {"no interval"}
    assert found["model_comparison"]["left_out_log_rms"].isna().all()


def test_published_times_are_fitted_once_with_a_start_up_constant(of_card):
    models, compared = of_card["models"], of_card["model_comparison"]
    # Table 5's 4 naive and 21 block times, Table 4's 3 of either buffered kernel.
    assert one(compared, source="published", model="M0")["cells"] == 31
    constants = models[(models["source"] == "published") & (models["parameter"] == "tau0")]
    assert ((constants["value"] > 0.05) & (constants["value"] < 0.07)).all()
    assert (constants["status"] == "determined").all()
    plain = one(compared, source="published", model="M0")
    with_constant = one(compared, source="published", model="M1")
    assert plain["left_out_log_rms"] > 3 * with_constant["left_out_log_rms"]
    changed = TIMES.copy()
    row = (changed["table"] == 5) & (changed["block_size"] == 32).fillna(False)
    changed.loc[row, "time_s"] *= 0.5
    before, after = (
        one(found, source="published", model="M1", parameter="tau0")["value"]
        for found in (models, tables_of({}, changed)["models"])
    )
    assert after < 0.95 * before
