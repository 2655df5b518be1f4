"""Figures of the models: speedups, errors, unseen data."""

import numpy as np
import pytest

from analysis.models.figures import FIGURES
from analysis.schema import bounded
from tests.support.figures import device, drawn, nothing
from tests.support.report_data import tables


def of(source):
    machine = "Host + Old GPU" if source == "published" else "Host + GPU"
    return {"source": source, "machine": machine, "kernels": "modelled"}


def predicted(source, variant, n, time_s, factor=1.0, **more):
    """Return a row of model_predictions.csv; the prediction is `factor` times the measured time."""
    row = {"model": "M1", "role": "fitted", "variant": variant, "n": n, "in_interval": True}
    row |= {"time_s": time_s, "predicted_s": time_s * factor, "log_residual": np.log(factor)}
    row |= {"predicted_low_s": time_s * factor * 0.9, "predicted_high_s": time_s * factor * 1.1}
    return of(source) | row | more


def compared(source, model="M1", left_out_log_rms=0.5, **more):
    """Return a row of model_comparison.csv; M1 is the best model."""
    row = {"model": model, "verdict": "best" if model == "M1" else "worse"}
    return of(source) | row | {"left_out_log_rms": left_out_log_rms} | more


def rho(source, value=8.0, low=4.0, high=16.0):
    row = {"model": "M0", "parameter": "rho"}
    return of(source) | row | {"value": value, "value_low": low, "value_high": high}


def block_and_naive(source, speedup, **more):
    """Return a naive kernel, and a block of 16×16 that has the speedup `speedup`, at N = 512."""
    return [
        predicted(source, "naive", 512, 1.0, block_size=32, **more),
        predicted(source, "block", 512, 1 / speedup, block_size=16, **more),
    ]


def of_cards(labels, **changes):
    """Return the tables with published times and those of `labels`, each with another speedup."""
    sources = ["published", *labels]
    return {
        "recordings": [device(label, **changes) for label in labels],
        "model_predictions": [
            row
            for speedup, source in enumerate(sources, 2)
            for row in block_and_naive(source, speedup)
        ],
        "model_comparison": [compared(source) for source in sources],
        "models": [rho(source) for source in sources],
    }


@pytest.mark.slow
def test_the_figure_of_speedups_has_a_panel_per_machine_with_a_fitted_rho(tmp_path):
    rows = of_cards(["a", "b"], simulated=True)
    rows["model_predictions"] += block_and_naive("a", 9, role="held out")
    rows["model_predictions"] += block_and_naive("a", 9, kernels="all")
    shown = drawn(FIGURES["model"], tables(tmp_path, **rows), focus="b")
    assert shown.tooltips == [f"N = 512, B = 16: {speedup}×" for speedup in (2, 3, 4)]
    titles = [text for text in shown.texts if text.endswith(", M1")]
    assert titles == ["published, Old GPU, M1", "SIMULATED b, M1", "SIMULATED a, M1"]
    rows = of_cards([])
    naive, block = rows["model_predictions"]
    naive |= {"time_low_s": 0.8, "time_high_s": 1.2}
    block |= {"time_low_s": 0.4, "time_high_s": 0.5}
    shown = drawn(FIGURES["model"], tables(tmp_path, **rows))
    assert shown.tooltips == ["N = 512, B = 16: 2× (1.6 to 3)"]
    assert nothing(FIGURES["model"], tables(tmp_path, **of_cards(["a"]) | {"models": []}))
    store = tables(tmp_path, **of_cards([f"card{number}" for number in range(50)]))
    shown = drawn(FIGURES["model"], store, focus="card7")
    assert (len(shown.tooltips), "card7, M1" in shown.texts) == (2, True)
    assert len(drawn(FIGURES["errors"], store).tooltips) == 1 + 8


def test_the_figure_of_errors_shows_factors_by_model_and_gpu(tmp_path):
    rows = [compared("published", "M0", np.log(4))]
    rows += [compared("a", "M0", **bounded("left_out_log_rms", *np.log([3, 2, 5])))]
    rows += [compared("a", "M1", np.log(1.1)), compared("a", "M2", None)]
    rows += [compared("a", "M0", np.log(7), kernels="all")]
    store = tables(tmp_path, recordings=[device("a")], model_comparison=rows)
    shown = drawn(FIGURES["errors"], store)
    assert shown.tooltips == ["a, M0: 3× (2 to 5)", "a, M1: 1.1×", "published, Old GPU, M0: 4×"]
    assert shown.hollow == ["a, M1: 1.1×", "published, Old GPU, M0: 4×"]
    assert "M0: the source's model" in shown.texts
    assert not [text for text in shown.texts if text.startswith("M2")]


def unseen(variant, factor, role="unseen", n=512, **more):
    return predicted("a", variant, n, 1.0, factor, role=role, kernels="all", **more)


def test_the_figure_of_predictions_marks_medians_outside_their_interval(tmp_path):
    rows = [
        unseen("register_tile", 1.0),
        unseen("register_tile", 1.2, n=1024),
        unseen("register_tile", 0.5, n=2048, in_interval=False),
        unseen("block", 1.1, role="held out", block_size=16),
        unseen("block", 3.0, role="held out", model="M0"),
        unseen("naive", 2.0, role="fitted"),
    ]
    made = {"model_predictions": rows, "model_comparison": [compared("a", kernels="all")]}
    shown = drawn(FIGURES["unseen"], tables(tmp_path, recordings=[device("a")], **made))
    outside = "a, register_tile, N = 2048: 0.5 (0.45 to 0.55)"
    block = "a, block: 1 cells, median 1.1, 1.1 to 1.1"
    assert shown.tooltips == [block, outside, "a, register_tile: 3 cells, median 1, 0.5 to 1.2"]
    assert shown.hollow == [outside]
    names = [text for text in shown.texts if text in ("block", "register_tile", "naive")]
    assert names == ["block", "register_tile"]
