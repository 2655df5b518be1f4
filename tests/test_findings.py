"""The sentences of the report follow the numbers: gain, loss, undecided, not measured."""

import math

import pytest
from analysis.findings import findings
from analysis.results import (
    FACTOR,
    MILLISECONDS,
    Results,
    ResultsError,
    as_published,
    evaluate,
    show,
)
from analysis.wording import verdict
from report_data import cpu_cell, gain_row, gpu_cell, recording, tables

NAN = math.nan


def said(results, topic, label="card"):
    """Return verdict and text of the one sentence on a topic."""
    found = next(f for f in findings(results) if f.subject.label == label)
    (sentence,) = (s for s in found.sentences if s.topic == topic)
    return sentence.verdict, str(sentence).replace("\u00a0", " ").replace("\u202f", " ")


@pytest.mark.parametrize(
    ("gain", "low", "high", "word"),
    [
        (2.0, 1.5, 2.5, "gain"),
        (0.5, 0.4, 0.6, "loss"),
        (1.1, 0.9, 1.3, "undecided"),
        (0.9, 0.8, 1.0, "undecided"),
        (3.0, NAN, NAN, "no interval"),
        (NAN, NAN, NAN, "not measured"),
    ],
)
def test_verdict(gain, low, high, word):
    assert verdict(gain, low, high) == word


def compared(folder, gains, cells=None, **more):
    """Return tables of one card whose gains over the best CPU are `gains`: {n: (gain, spread)}."""
    return tables(
        folder,
        recordings=[recording("card")],
        summary=cells or [gpu_cell("card", "block", n, 0.010) for n in gains],
        gains=[gain_row("card", "block", n, *gain) for n, gain in gains.items()],
        **more,
    )


def test_fastest_variant_is_the_one_with_the_least_total_at_the_largest_order(tmp_path):
    cells = [
        gpu_cell("card", "block", 512, 0.001),
        gpu_cell("card", "naive", 1024, 0.020),
        gpu_cell("card", "block", 1024, 0.010, block_size=16),
        gpu_cell("card", "block_unroll4", 1024, 0.0125),
        gpu_cell("card", "block_unroll4", 1024, 0.002, memory="pinned"),
    ]
    word, text = said(tables(tmp_path, recordings=[recording("card")], summary=cells), "fastest")
    assert word == "gain"
    assert "order 1024" in text
    assert "pageable host memory included, is block (B = 16): 10.00 ms (9.90 to 10.10)" in text
    assert "214.7 GFLOP/s" in text
    assert "Next comes block_unroll4 (B = 32) with 12.50 ms" in text
    assert "do not overlap" in text


@pytest.mark.parametrize(
    ("spread", "word", "words"),
    [(0.2, "undecided", "undecided"), (None, "no interval", "cannot be")],
)
def test_fastest_variant_is_undecided_where_intervals_overlap_or_lack(
    tmp_path, spread, word, words
):
    cells = [
        gpu_cell("card", "block", 1024, 0.010, spread=spread),
        gpu_cell("card", "naive", 1024, 0.011, spread=spread),
    ]
    results = tables(tmp_path, recordings=[recording("card")], summary=cells)
    assert said(results, "fastest")[0] == word
    assert words in said(results, "fastest")[1]


@pytest.mark.parametrize(
    ("gain", "word", "words"),
    [
        ((40.0, 0.01), "gain", "is faster than the best CPU version"),
        ((0.5, 0.01), "loss", "loses against the best CPU version"),
        ((1.01, 0.2), "undecided", "neither faster nor slower"),
        ((40.0, None), "no interval", "nothing is claimed"),
    ],
)
def test_comparison_with_the_cpu_is_worded_by_its_interval(tmp_path, gain, word, words):
    found, text = said(compared(tmp_path, {1024: gain}), "cpu")
    assert found == word
    assert words in text
    assert "(blas, on 16 threads)" in text
    assert "was not measured" not in text
    others = {"is faster than", "loses against", "neither faster"} - {
        words.split(" the best")[0].removesuffix(" nor slower")
    }
    assert not any(other in text for other in others)


def test_comparison_with_the_cpu_is_of_the_fastest_variant_at_the_largest_common_order(tmp_path):
    cells = [gpu_cell("card", "block", n, 0.01) for n in (512, 1024, 2048)]
    cells += [gpu_cell("card", "naive", 1024, 0.5)]
    results = tables(
        tmp_path,
        recordings=[recording("card")],
        summary=cells,
        gains=[
            gain_row("card", "block", 512, 3.0, 0.01),
            gain_row("card", "block", 1024, 7.0, 0.01),
            gain_row("card", "naive", 1024, 0.1, 0.01),
            {"source": "card", "n": 2048, "variant": "block", "host_memory": "pageable"},
        ],
    )
    word, text = said(results, "cpu")
    assert word == "gain"
    assert text.startswith("At N = 1024, ")
    assert "gain 7.00 × (6.93 to 7.07)" in text


def test_variants_without_block_size_are_found_among_the_gains(tmp_path):
    results = tables(
        tmp_path,
        recordings=[recording("card")],
        summary=[gpu_cell("card", "buffered_row", 512, 0.01, block_size=None)],
        gains=[gain_row("card", "buffered_row", 512, 3.0, 0.01, block_size=None)],
    )
    assert said(results, "cpu")[1].startswith(
        "At N = 512, the largest order that its CPU multiplied too, buffered_row with its copies"
    )


def test_no_common_order_is_said(tmp_path):
    results = tables(
        tmp_path, recordings=[recording("card")], summary=[gpu_cell("card", "block", 512, 0.1)]
    )
    assert said(results, "cpu") == ("not measured", "A gain over the CPU was not measured.")
    assert said(results, "host") == ("not measured", "The CPU of this host was not measured.")


def test_orders_at_which_the_gpu_does_not_win_are_listed(tmp_path):
    results = compared(tmp_path, {256: (0.5, 0.1), 512: (1.0, 0.1), 1024: (9.0, 0.1)})
    word, text = said(results, "sizes")
    assert word == "loss"
    assert "it is a loss at N = 256 (0.500 ×; 0.450 to 0.550)" in text
    assert "it is undecided at N = 512 (1.00 ×; 0.90 to 1.10)" in text
    assert "it is a gain at N = 1024 (9.00 ×; 8.10 to 9.90)" in text


def test_winning_everywhere_is_said_once(tmp_path):
    word, text = said(compared(tmp_path, {256: (2.0, 0.1), 512: (3.0, 0.1)}), "sizes")
    assert (word, text) == (
        "gain",
        "It wins against the best CPU version at every common order, N = 256 to 512.",
    )


def test_copies_are_shares_of_the_fastest_variants_total(tmp_path):
    cells = [
        gpu_cell("card", "block", 1024, 0.010),
        gpu_cell("card", "block", 1024, 0.004, memory="pinned")
        | {"h2d_s": 0.0002, "d2h_s": 0.0001},
    ]
    results = tables(tmp_path, recordings=[recording("card")], summary=cells)
    _, text = said(results, "transfers")
    assert text == (
        "The copies take 50 % of its time from pageable and 7.5 % of its time from pinned "
        "host memory."
    )


def test_kernel_alone_is_told_apart_from_the_total(tmp_path):
    cells = [
        gpu_cell("card", "block", 1024, 0.010),
        gpu_cell("card", "naive", 1024, 0.012) | {"kernel_s": 0.001},
    ]
    results = tables(tmp_path, recordings=[recording("card")], summary=cells)
    assert "is naive (B = 32): 1.000 ms" in said(results, "kernel")[1]


def test_a_library_is_no_way_of_this_study_but_stands_beside_its_kernels(tmp_path):
    cells = [
        gpu_cell("card", "block", 1024, 0.010),
        gpu_cell("card", "cublas_sgemm", 1024, 0.004, block_size=None),
    ]
    results = tables(tmp_path, recordings=[recording("card")], summary=cells)
    assert "is block (B = 32): 10.00 ms" in said(results, "fastest")[1]
    text = said(results, "kernel")[1]
    assert "is block (B = 32): 2.500 ms" in text
    assert "; that of NVIDIA's library (cublas_sgemm) takes 1.000 ms" in text


def test_cells_of_other_shapes_are_not_compared_with_those_of_the_orders(tmp_path):
    other = gpu_cell("card", "block", 4001, 0.9) | {"series": "shapes"}
    cells = [gpu_cell("card", "block", 1024, 0.010), other]
    results = tables(tmp_path, recordings=[recording("card")], summary=cells)
    assert "order 1024" in said(results, "fastest")[1]
    assert "N = 1024" in said(results, "kernel")[1]


def test_host_without_gpu(tmp_path):
    cells = [
        cpu_cell("host", "naive", 512, 0.2, spread=None),
        cpu_cell("host", "blocked", 512, 0.05, block_size=64),
        cpu_cell("host", "blocked", 256, 0.001, block_size=8),
    ]
    results = tables(tmp_path, recordings=[recording("host", gpu=False)], summary=cells)
    assert said(results, "fastest", "host")[0] == "not measured"
    _, text = said(results, "host", "host")
    assert "fastest at N = 512 with blocked (B = 64), on one thread: 50.00 ms (49.50 to 50.50)" in (
        text
    )
    assert text.endswith("the naive loop takes 200.0 ms (no interval).")


def test_card_without_a_timed_cell(tmp_path):
    results = tables(tmp_path, recordings=[recording("card", cells_failed=7)])
    assert said(results, "fastest") == ("not measured", "On Card no cell was timed.")


def test_failed_cells_are_counted(tmp_path):
    results = compared(tmp_path, {512: (2.0, 0.1)})
    assert not any(s.topic == "gate" for f in findings(results) for s in f.sentences)
    cells = [gpu_cell("card", "block", 512, 0.01)]
    results = tables(tmp_path, recordings=[recording("card", cells_failed=3)], summary=cells)
    assert said(results, "gate")[1].startswith("3 of the planned cells failed")


def model_row(model, left_out_log_rms):
    """Return a row of model_comparison.csv."""
    return {
        "source": "card",
        "kernels": "modelled",
        "model": model,
        "left_out_log_rms": left_out_log_rms,
    }


def test_the_model_that_predicts_best_is_named_beside_the_source_s(tmp_path):
    cells = [gpu_cell("card", "block", 512, 0.01)]
    rows = [
        model_row("M0", math.log(4)),
        model_row("M1", math.log(2)),
        model_row("M2", math.log(3)),
    ]
    results = tables(tmp_path, recordings=[recording("card")], summary=cells, model_comparison=rows)
    word, text = said(results, "model")
    assert word == "stated"
    assert text == (
        "Sizes that they were not fitted to are predicted best by the model M1, typically within "
        "a factor of 2.000; by the source's own, M0, within 4.000."
    )
    alone = tables(
        tmp_path, recordings=[recording("card")], summary=cells, model_comparison=rows[:1]
    )
    assert said(alone, "model")[1].endswith("by the model M0, typically within a factor of 4.000.")


def test_a_card_without_model_is_said_to_have_none(tmp_path):
    cells = [gpu_cell("card", "block", 512, 0.01)]
    results = tables(tmp_path, recordings=[recording("card")], summary=cells)
    assert said(results, "model") == ("not measured", "No model was fitted to its times.")


def test_every_number_of_a_sentence_is_its_csv_cell(tmp_path):
    models = [model_row("M0", 1.0), model_row("M2", 0.5)]
    results = compared(tmp_path, {256: (0.5, 0.1), 512: (2.0, 0.1)}, model_comparison=models)
    numbers = [p for f in findings(results) for s in f.sentences for p in s.parts if p != str(p)]
    traced = [p for p in numbers if hasattr(p, "expression")]
    assert len(traced) > 20
    for number in traced:
        found = evaluate(results.frame(number.table), number.rows, number.expression)
        assert found == float(number.value)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0012345678, MILLISECONDS, "1.235"),
        (12.3456789, MILLISECONDS, "12\u202f346"),
        (1.5e-12, MILLISECONDS, "1.500×10⁻⁹"),
        (math.inf, FACTOR, "∞"),
        (0.0, MILLISECONDS, "0"),
        (-0.5, FACTOR, "−0.5000"),
        (0.055, as_published(MILLISECONDS), "55"),
        (0.0005, as_published(MILLISECONDS), "0.5"),
        (1.3, as_published(MILLISECONDS), "1300"),
    ],
)
def test_numbers_are_shown_with_their_significant_digits(value, unit, text):
    assert show(value, unit, value) == text


def test_bounds_have_the_decimals_of_their_median():
    assert show(0.00123, MILLISECONDS, 0.0012345) == "1.230"
    assert show(9.999, FACTOR, 12.34) == "10.00"
    assert show(123456.0, FACTOR, 1.234) == "123\u202f456"


def test_labels_that_look_like_numbers_or_blanks_stay_text(tmp_path):
    for label in ("4090", "NA", "None", "1e3"):
        cells = [gpu_cell(label, "block", 512, 0.01)]
        results = tables(tmp_path, recordings=[recording(label)], summary=cells)
        assert said(results, "fastest", label)[0] == "gain"


def test_a_missing_table_is_one_line_with_the_remedy(tmp_path):
    tables(tmp_path)
    (tmp_path / "gains.csv").unlink()
    with pytest.raises(ResultsError, match=r"gains\.csv is missing; .*python -m analysis tables"):
        Results(tmp_path)


def test_an_unreadable_table_is_one_line_with_the_remedy(tmp_path):
    tables(tmp_path)
    (tmp_path / "gains.csv").write_text("a,b\n1,2,3\n")
    (tmp_path / "gains.csv").write_bytes(b"a\n\xff\xfe\n")
    with pytest.raises(ResultsError, match=r"gains\.csv cannot be read"):
        Results(tmp_path)
