"""Break-even orders, transfer model and held-out orders in the report: words follow numbers."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from report_data import (
    Page,
    recording,
    report,
    tables,
    traced_tables,
)

from analysis import decision_plots
from analysis.decide.predictors import Copies
from analysis.decision_findings import decision_findings
from analysis.results import Results


def said(results, topic):
    (found,) = decision_findings(results)
    (sentence,) = (one for one in found.sentences if one.topic == topic)
    return str(sentence).replace("\u00a0", " ").replace("\u202f", " ")


def crossing(place, n, low, high, **changes):
    """Return a row of break_even.csv of a card."""
    return {
        "recording": "card",
        "gpu": "card",
        "host_memory": "pinned",
        "kernels": "study",
        "opponent": "blas_all",
        "least_n": 256,
        "largest_n": 2048,
        "place": place,
        "n": n,
        "n_low": low,
        "n_high": high,
        "loses_at": 256,
        "wins_at": 512,
        "cells_without_interval": 0,
    } | changes


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (
            crossing("measured", 412.4, 390.2, 440.7),
            "from N = 412 (390 to 441) on, between N = 256 and N = 512, with BLAS on all threads.",
        ),
        (
            crossing("below", 70.2, 0, 90, loses_at=None, wins_at=256),
            "already at N = 256, the smallest order measured, with BLAS on all threads "
            "(extrapolated: N = 70 (at most 90)).",
        ),
        (
            crossing("always", 0, 0, 0, loses_at=None, wins_at=256),
            "already at N = 256, the smallest order measured, with BLAS on all threads.",
        ),
        (
            crossing("never", math.inf, 2500, math.inf, loses_at=2048, wins_at=None),
            "never in the measured range, up to N = 2048, with BLAS on all threads.",
        ),
        (
            crossing("beyond", 3000, 2500, math.inf, loses_at=2048, wins_at=None),
            "never in the measured range, up to N = 2048, with BLAS on all threads "
            "(extrapolated: N = 3000 (at least 2500)).",
        ),
        (
            crossing("measured", 400, math.nan, math.nan),
            "from N = 400 (no interval) on, between N = 256 and N = 512, with BLAS on all threads.",
        ),
    ],
)
def test_where_it_pays_is_said_as_it_was_found(tmp_path, row, text):
    results = tables(tmp_path, recordings=[recording("card")], break_even=[row])
    found = said(results, "worth_pinned")
    start = "With copies from and to pinned memory the card is faster than the CPU "
    assert found == start + text
    assert "was not measured" in said(results, "worth_pageable")


def test_opponents_are_told_together_where_they_fare_alike(tmp_path):
    rows = [
        crossing("below", 27, 16, 41, opponent="naive"),
        crossing("measured", 412, 390, 440),
        crossing("below", 107, 74, 140, opponent="own"),
        crossing("measured", 333, 320, 350, kernels="library"),
        crossing("measured", 777, 700, 800, gpu="other"),
        crossing("never", math.inf, 3000, math.inf, opponent="best", largest_n=4096),
    ]
    results = tables(tmp_path, recordings=[recording("card")], break_even=rows)
    assert said(results, "worth_pinned") == (
        "With copies from and to pinned memory the card is faster than the CPU from N = 412 "
        "(390 to 440) on, between N = 256 and N = 512, with BLAS on all threads; already at "
        "N = 256, the smallest order measured, with naive loop on one thread (extrapolated: "
        "N = 27 (16 to 41)), fastest of this study on one thread (extrapolated: N = 107 (74 to "
        "140)); never in the measured range, up to N = 4096, with fastest of all."
    )


def line(direction, **changes):
    """Return a row of transfers.csv of a card."""
    return {
        "recording": "card",
        "gpu": "card",
        "host_memory": "pinned",
        "direction": direction,
        "data": "passes",
        "model": "line",
        "used": True,
        "sizes": 7,
        "latency_s": 8e-6,
        "latency_low_s": 7e-6,
        "latency_high_s": 9e-6,
        "bytes_per_s": 2e10,
        "bytes_per_low_s": 1.9e10,
        "bytes_per_high_s": 2.1e10,
        "left_out_log_rms": 0.05,
        "holdout_log_rms": 0.02,
    } | changes


def test_a_line_and_a_knee_are_told_apart(tmp_path):
    unbounded = {"latency_low_s": None, "latency_high_s": None, "bytes_per_s": 3e10}
    knee = line("d2h", model="knee", knee_bytes=4e6, beyond_bytes_per_s=1e10, **unbounded)
    rows = [line("h2d"), line("d2h", used=False), knee]
    results = tables(tmp_path, recordings=[recording("card")], transfers=rows)
    found = said(results, "copies_pinned")
    first, second = found.split("; one back takes ")
    assert first == (
        "A copy of pinned memory to the card takes 8.00 µs (7.00 to 9.00) and its bytes at "
        "20.0 GB/s (19.0 to 21.0), which predicts sizes left out of the fit to 5.1 % and the "
        "orders held out to 2.0 %"
    )
    assert "on the whole, but better said 8.00 µs, then 30.0 GB/s up to 4.00 MB a pass" in second
    assert "10.0 GB/s beyond" in second
    assert said(results, "copies_pageable") == (
        "Too few copies of pageable memory were measured to fit the model to."
    )


def predicted(error, **changes):
    """Return a row of predictions.csv of a card."""
    return {
        "recording": "card",
        "gpu": "card",
        "host_memory": "pinned",
        "variant": "block",
        "block_size": 32,
        "n": 1536,
        "time_s": 1e-3,
        "predicted_s": 1e-3 * (1 + error),
        "error_share": error,
        "inside": abs(error) < 0.2,
        "is_library": False,
        "is_fastest": False,
        "is_predicted_fastest": False,
    } | changes


@pytest.mark.parametrize(("error", "word"), [(0.1, "within the 15 %"), (-0.3, "beyond the 15 %")])
def test_predictions_are_held_to_their_bound(tmp_path, error, word):
    rows = [predicted(error), predicted(error, n=3072), predicted(-0.4, variant="naive")]
    rows.append(predicted(0.04, is_predicted_fastest=True))
    results = tables(
        tmp_path,
        recordings=[recording("card")],
        predictions=rows,
        predictors=[{"recording": "card", "gpu": "card", "error_bound": 0.15}],
    )
    found = said(results, "predicted")
    assert word in found
    assert found.startswith("Predicted without the orders N = 1536 and N = 3072, the 4 medians")
    assert "by 40 % at worst (naive (B = 32), pinned, N = 1536)" in found
    assert "fastest kernel is off by 4.0 % at most" in found


def test_what_was_not_measured_is_said(tmp_path):
    results = tables(tmp_path, recordings=[recording("card"), recording("host", gpu=False)])
    (found,) = decision_findings(results)
    assert {sentence.verdict for sentence in found.sentences} == {"not measured"}
    assert len(found.sentences) == 5


# ---- the page


@pytest.fixture(scope="module")
def base(make_recording, tmp_path_factory):
    base = tmp_path_factory.mktemp("decisions")
    card = make_recording(
        base / "card", sizes=(256, 512, 1024), holdout=(768,), samples=7, noise=0.01
    )
    report(base, {"card": card.path})
    return base


@pytest.fixture(scope="module")
def text(base):
    return (base / "report.html").read_text()


def test_the_page_has_the_answers_tables_and_figures_of_a_card(text, base):
    part = text[text.index('<section id="decide"') :]
    part = part[: part.index("\n</section>\n\n")]
    for anchor in ("table-break-even-card", "table-transfers-card", "table-predictions-card"):
        assert f'<figure class="table" id="{anchor}"' in part
    for name in ("figure-copies", "figure-break-even-card"):
        assert f'id="{name}"' in part
    assert part.count("<dt>") == 5
    index = json.loads((base / "figures" / "figures.json").read_text())
    captions = {entry["name"]: entry["caption"] for entry in index}
    assert "hollow where the order took no part in the fit" in captions["copies"]


def test_every_number_is_traced_and_shown_in_its_unit(text, base):
    page = Page(text)
    names = {"break_even", "transfers", "predictions", "predictors"}
    assert names <= traced_tables(page, Results(base / "tables"))


def test_the_table_of_held_out_orders_marks_the_fastest(text):
    table = text[text.index('id="table-predictions-card"') :]
    table = table[: table.index("</table>")]
    assert table.count("predicted fastest") == 2
    assert table.count('<mark class="badge">library</mark>') == 2


# ---- figures


def test_held_out_copies_are_hollow_and_the_line_is_the_model():
    sizes = 4.0 * np.array([256, 512, 768, 1024]) ** 2
    model = Copies(1e-5, 2e10)
    points = pd.DataFrame(
        {
            "gpu": "Card",
            "direction": "d2h",
            "host_memory": "pinned",
            "copies": 1,
            "size_bytes": sizes,
            "copy_s": model.time_s(1, sizes),
            "holdout": [False, False, True, False],
        }
    )
    fits = pd.DataFrame([line("d2h", gpu="Card", latency_s=1e-5)])
    fits = fits.assign(knee_bytes=np.nan, beyond_bytes_per_s=np.nan)
    (axis,) = decision_plots.copies(points, fits).axes
    full, hollow = axis.collections
    assert len(full.get_offsets()) == 3
    ((x, y),) = hollow.get_offsets()
    assert (x, y) == pytest.approx((sizes[2], sizes[2] / model.time_s(1, sizes[2]) / 1e9))
    drawn = axis.lines[0]
    span, rate = drawn.get_data()
    assert rate == pytest.approx(span / model.time_s(1, span) / 1e9)


def test_a_break_even_between_orders_is_drawn():
    orders = [256, 512, 1024]
    gpu = pd.DataFrame({"host_memory": "pinned", "n": orders, "total_s": [2e-3, 3e-3, 4e-3]})
    gpu = gpu.assign(total_low_s=gpu["total_s"] * 0.9, total_high_s=gpu["total_s"] * 1.1)
    cpu = pd.DataFrame({"opponent": "blas_all", "n": orders, "time_s": [1e-3, 5e-3, 4e-2]})
    cpu = cpu.assign(time_low_s=np.nan, time_high_s=np.nan)
    found = pd.DataFrame({"host_memory": ["pinned"], "opponent": ["blas_all"], "n": [400.0]})
    (axis,) = decision_plots.break_even(gpu, cpu, found, {"blas_all": "BLAS"}).axes
    verticals = [one for one in axis.lines if list(one.get_xdata()) == [400.0, 400.0]]
    assert len(verticals) == 1
    names = axis.get_legend_handles_labels()[1]
    assert names == ["GPU, pinned memory", "CPU, BLAS"]
