"""What the report says of the models: sentences that follow the numbers, and the tables."""

import math

import pytest
from report_data import interval, tables

from analysis.model_findings import model_findings, parameter_unit
from analysis.model_views import (
    comparison_table,
    held_out_table,
    parameters_table,
    ratios_table,
)
from analysis.results import MICROSECONDS, MILLISECONDS, Number, evaluate


def compared(model, left_out, kernels="modelled", **changes):
    """Return a row of model_comparison.csv; errors are logarithms of `left_out` factors."""
    return {
        "source": "card",
        "kernels": kernels,
        "model": model,
        "parameters": 2,
        "cells": 30,
        "orders": 4,
        "log_rms": math.log(left_out),
        "left_out_log_rms": math.log(left_out),
        **interval("over_best", 3.0, 0.1),
        **interval("gain", 2.0, 0.1),
        "verdict": "worse",
        "aicc": 10.0,
        "judged_from_n": 512,
        "judged_factor": 1.5,
        "judged": 20,
        "judged_within": 15,
        "worst_variant": "block",
        "worst_block_size": 8,
        "worst_n": 1024,
        "worst_factor": 4.0,
    } | changes


def parameter(name, value, model="M0", kernels="modelled", low=0.9, high=1.1, **changes):
    """Return a row of models.csv, with bounds as multiples of the value."""
    return {
        "source": "card",
        "kernels": kernels,
        "model": model,
        "parameter": name,
        "value": value,
        "value_low": value * low,
        "value_high": value * high,
        "status": "determined",
        "method": "bootstrap",
        "cells": 30,
    } | changes


RHO = parameter("rho", 12.0)


def said(folder, topic, **rows):
    """Return verdict and text of the sentence on a topic of the models of the card."""
    rows = {"model_comparison": [compared("M0", 3.0)], "models": [RHO]} | rows
    results = tables(folder, **rows)
    (sentence,) = (s for s in model_findings(results, "card") if s.topic == topic)
    for part in sentence.parts:
        if isinstance(part, Number):
            found = evaluate(results.frame(part.table), part.rows, part.expression)
            assert found == float(part.value)
    return sentence.verdict, str(sentence).replace("\u00a0", " ").replace("\u202f", " ")


def topics(folder, **rows):
    return [sentence.topic for sentence in model_findings(tables(folder, **rows), "card")]


def test_a_source_without_models_is_said_to_have_none(tmp_path):
    (sentence,) = model_findings(tables(tmp_path), "card")
    assert (sentence.verdict, str(sentence)) == (
        "not measured",
        "No model was fitted to its times.",
    )


def test_m0_gives_rho_its_typical_and_its_worst_miss(tmp_path):
    word, text = said(tmp_path, "m0")
    assert word == "stated"
    assert text == (
        "M0, fitted to 30 cells of 4 orders together: ρ = 12.0 (10.8 to 13.2). Orders that it was "
        "not fitted to it misses by a factor of 3.000, typically. Of N = 512 and more it is "
        "farthest off for block (B = 8) at N = 1024, to which it gives 4.000 times too much time."
    )
    slow = [compared("M0", 3.0, worst_factor=0.25)]
    assert "4.000 times too little time" in said(tmp_path, "m0", model_comparison=slow)[1]


@pytest.mark.parametrize(
    ("status", "low", "high", "expected"),
    [
        (
            "at least",
            *(0.25, math.inf),
            "ρ is at least 3.00 (best value 12.0), and the data set it no upper bound.",
        ),
        (
            "at most",
            *(0.0, 2.0),
            "ρ is at most 24.0 (best value 12.0), and the data do not tell it from nothing.",
        ),
        ("not determined", 0.0, math.inf, "the data do not determine ρ (best value 12.0)."),
        ("no interval", math.nan, math.nan, "ρ = 12.0 (no interval)."),
    ],
)
def test_a_ratio_that_the_data_do_not_bound_is_said_to_be(tmp_path, status, low, high, expected):
    row = parameter("rho", 12.0, low=low, high=high, status=status)
    word, text = said(tmp_path, "m0", models=[row])
    assert word == "undecided"
    assert expected in text


def step(model, after, share, **changes):
    return {
        "source": "card",
        "kernels": "modelled",
        "model": model,
        "after": after,
        "adds": f"what {model[-1:].replace('1', 'one').replace('2', 'two')} adds",
        "share": share,
        "variant": "block",
        "block_size": 1,
        "error_before": math.log(8.0),
        "error_after": math.log(1.5),
    } | changes


def test_the_effect_that_made_the_difference_is_the_one_that_takes_away_most(tmp_path):
    rows = [step("M1", "M0", 0.2), step("M2", "M1", 0.7), step("M3", "M2", -0.05)]
    text = said(tmp_path, "effects", model_steps=rows)[1]
    assert text.startswith("Of the mean square error of M0 at orders left out (of logarithms), M2 ")
    assert "M2 (what two adds) takes away 70 %; M1 (what one adds) takes away 20 %; M3 " in text
    assert " adds 5.0 %. What made the difference most: what two adds; " in text
    assert text.endswith(
        "for block (B = 1) the typical miss falls from a factor of 8.000 to 1.500."
    )
    assert "effects" not in topics(tmp_path, model_comparison=[compared("M0", 3.0)], models=[RHO])


def test_a_winner_is_named_only_if_it_is_told_from_the_others(tmp_path):
    first, best = compared("M0", 3.0), compared("M2", 1.2, verdict="best", aicc=1.0)
    word, text = said(tmp_path, "predicts", model_comparison=[first, best])
    assert word == "stated"
    assert "typically within a factor of 1.200, with an error (log RMS) 2.000 (1.800 to " in text
    assert "2.200) times smaller than M0's. It is told from every other by more than" in text
    assert text.endswith("The information criterion AICc prefers M2, too.")
    near = compared("M1", 1.3, verdict="not told from the best")
    word, text = said(tmp_path, "predicts", model_comparison=[first, near, best])
    assert word == "undecided"
    assert "It cannot be told from M1, whose error is 3.000 (2.700 to 3.300) times its own" in text
    other = compared("M1", 1.3, verdict="not told from the best", aicc=0.0)
    text = said(tmp_path, "predicts", model_comparison=[first, other, best])[1]
    assert text.endswith("AICc prefers M1, not M2.")


def test_m0_that_predicts_best_is_compared_with_nothing(tmp_path):
    text = said(tmp_path, "predicts", model_comparison=[compared("M0", 1.2, verdict="best")])[1]
    assert text.startswith("M0 predicts orders that it was not fitted to best: typically within a")
    assert "smaller" not in text
    assert "told from" not in text


def test_one_set_of_constants_is_judged_model_by_model(tmp_path):
    rows = [
        compared("M0", 3.0),
        compared("M4", 1.4, "all"),
        compared("M7", 1.1, "all", verdict="best", judged_within=20, worst_factor=0.8),
    ]
    word, text = said(tmp_path, "counted_models", model_comparison=rows)
    assert word == "stated"
    assert "(fitted to 30 cells) describes within a factor of 1.50, from N = 512 on: " in text
    assert "by M4, 15 of 20; by M7, 20 of 20. M4 is farthest off for block (B = 8)" in text
    assert "M7 is farthest off for block (B = 8) at N = 1024, to which it gives 1.250" in text
    rows[2] |= {"judged_within": 19}
    assert said(tmp_path, "counted_models", model_comparison=rows)[0] == "undecided"


def test_constants_stand_with_their_cycles(tmp_path):
    rows = [compared("M0", 3.0), compared("M7", 1.1, "all", verdict="best")]
    of_m7 = {"model": "M7", "kernels": "all"}
    parameters = [
        RHO,
        parameter("rho", 1.0, **of_m7),
        parameter("tau0", 1e-5, **of_m7, cycles=20000.0),
        parameter("c_L", 4e-12, **of_m7, cycles=1.05),
        parameter("t_B", 1e-7, **of_m7, cycles=200.0, status="at most", low=0, high=2),
    ]
    text = said(tmp_path, "constants", model_comparison=rows, models=parameters)[1]
    assert text == (
        "By M7, a launch: τ₀ = 10.0 µs (9.0 µs to 11.0 µs); a line: c_L = 4.00 ps (3.60 ps to 4.40 "
        "ps), 1.05 cycles of one multiprocessor; a step from barrier to barrier: t_B is at most "
        "200 ns (best value 100 ns), and the data do not tell it from nothing, 200 cycles."
    )


def test_a_constant_as_long_as_a_program_s_start_is_in_milliseconds():
    assert parameter_unit("tau0", 0.05) == MILLISECONDS
    assert parameter_unit("tau0", 1e-5) == MICROSECONDS


def predicted(role, factor, inside=True, **changes):
    return {
        "source": "card",
        "kernels": "all",
        "model": "M7",
        "role": role,
        "variant": "block",
        "block_size": 8,
        "n": 1536,
        **interval("time_s", 2e-3, 0.01),
        **interval("predicted_s", 2e-3 * factor, 0.2),
        "in_interval": inside,
        "log_residual": math.log(factor),
    } | changes


def test_predictions_of_held_out_orders_and_of_kernels_never_fitted(tmp_path):
    rows = [
        *(predicted("held out", factor) for factor in (1.01, 0.98)),
        predicted("held out", 1.13, inside=False, n=3072, variant="block_strided"),
        predicted("unseen", 0.5, variant="outer_product", block_size=None),
        predicted("fitted", 9.0),
    ]
    text = said(tmp_path, "held_out", model_predictions=rows)[1]
    assert text == (
        "3 cells of 2 orders were measured and held out. M7 predicts them with a median error of "
        "2.0 %, at worst 13 % (block_strided (B = 8) at N = 3072); 2 of 3 lie in their prediction "
        "interval."
    )
    text = said(tmp_path, "unseen", model_predictions=rows)[1]
    assert text.startswith("1 cells of 1 variants of other sources took no part in the fit. M7 ")
    assert "at worst 50 % (outer_product at N = 1536)" in text


def ratio(basis, of, value, status="determined"):
    return {
        "source": "card",
        "basis": basis,
        "of": of,
        **interval("value", value, 0.1),
        "status": status,
    }


def test_the_fitted_ratio_is_told_to_which_measured_one_it_is_nearest(tmp_path):
    rows = [
        ratio("fit", "M0", 40.0),
        ratio("fit", "M2", 5.0, "at least"),
        ratio("latency", "l2", 12.0),
        ratio("latency", "dram", 30.0),
        ratio("bandwidth", "dram", 11.0),
    ]
    text = said(tmp_path, "ratios", model_ratios=rows)[1]
    assert text == (
        "A global access costs as much as so many shared ones; one load waiting for the other: "
        "from the second-level cache 12.0, device memory 30.0; loads of many warps at once: from "
        "device memory 11.0; by M0's fit: 40.0 (36.0 to 44.0). Nearest to the fit is the ratio of "
        "latencies of device memory."
    )
    alone = said(tmp_path, "ratios", model_ratios=rows[1:3])[1]
    assert "fit" not in alone
    fits = topics(
        tmp_path, model_ratios=rows[:1], model_comparison=[compared("M0", 3.0)], models=[RHO]
    )
    assert "ratios" not in fits


def texts_of(table):
    return [
        ["".join(map(str, cell.parts)) + cell.badge for cell in row.cells] for row in table.rows
    ]


def test_the_comparison_marks_the_best_and_what_is_not_told_from_it(tmp_path):
    rows = [
        compared("M0", 3.0),
        compared("M1", 1.3, verdict="not told from the best"),
        compared("M2", 1.2, verdict="best", left_out_log_rms=math.nan),
    ]
    table = comparison_table(tables(tmp_path, model_comparison=rows), "card", "Card", "table-x")
    verdicts = [column.heading for column in table.columns].index("verdict")
    found = texts_of(table)
    assert [row[verdicts] for row in found] == ["worse", "not told from the best", "best"]
    assert found[0][:2] == ["M0's kernels", "M0"]
    assert found[0][-2:] == ["15 of 20", "4.000"]
    assert "–" in found[2]


def test_a_model_stands_once_in_the_parameters_fitted_to_the_most_kernels(tmp_path):
    rows = [
        RHO,
        parameter("rho", 1.0, "M4"),
        parameter("rho", 2.0, "M4", "all"),
        parameter("tau0", 1e-5, "M4", "all", low=0, status="at most", method="profile likelihood"),
        parameter("c_S", 1e-10, "M4", "all", low=0.0123, high=math.inf, status="at least"),
    ]
    table = parameters_table(tables(tmp_path, models=rows), "card", "Card", "table-x")
    found = texts_of(table)
    assert [(row[0], row[1], row[3].replace("\u00a0", " ")) for row in found] == [
        ("M0", "ρ", "12.0"),
        ("M4", "ρ", "2.00"),
        ("M4", "τ₀", "10.0 µs"),
        ("M4", "c_S", "100 ps"),
    ]
    assert str(table.rows[3].cells[3].low).replace("\u00a0", " ") == "1.23 ps"
    assert found[0][4:6] == ["determined", "bootstrap"]
    assert found[2][4:6] == ["at most", "profile likelihood"]
    assert str(table.rows[2].cells[3].high).replace("\u00a0", " ") == "11.0 µs"


def test_held_out_orders_stand_in_order_beside_their_predictions(tmp_path):
    rows = [
        predicted("held out", 1.1, n=3072),
        predicted("held out", 0.9, inside=False),
        predicted("held out", 0.9, variant="naive", block_size=32),
        predicted("fitted", 1.0),
        predicted("held out", 1.0, kernels="modelled"),
    ]
    table = held_out_table(tables(tmp_path, model_predictions=rows), "card", "Card", "table-x")
    found = texts_of(table)
    assert [(row[0], row[2], row[-2], row[-1]) for row in found] == [
        ("naive", "1536", "0.9000", "yes"),
        ("block", "1536", "0.9000", "no"),
        ("block", "3072", "1.100", "yes"),
    ]
    empty = held_out_table(tables(tmp_path), "card", "Card", "table-x")
    assert not empty.rows


def test_ratios_say_what_each_is(tmp_path):
    rows = [ratio("fit", "M0", 40.0, "at least"), ratio("latency", "l1", 1.4)]
    table = ratios_table(tables(tmp_path, model_ratios=rows), "card", "Card", "table-x")
    found = texts_of(table)
    assert found[0][:2] == ["fit", "M0"]
    assert found[0][-1] == "at least"
    assert found[1][:2] == ["latency", "the first-level cache"]
    assert found[0][2] != found[1][2]
