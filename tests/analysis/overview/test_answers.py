"""The three answers of the first screen follow the numbers, and so does their wording."""

import math

import pytest
from analysis.headline import answers
from analysis.headline_figure import of_headline
from analysis.results import order_cells, subjects

from analysis import style
from analysis.domain import CPU
from tests.support.report_data import cpu_cell, gpu_cell, interval, recording, tables

INFINITE = math.inf


def said(results, topic):
    """Return the verdict, the number and the sentence of the only subject's answer on a topic."""
    (subject,) = subjects(results)
    (answer,) = (a for a in answers(results, subject) if a.topic == topic)
    texts = ("".join(map(str, answer.figure)), str(answer))
    return answer.verdict, *(t.replace("\u00a0", " ").replace("\u202f", " ") for t in texts)


def study(folder, cells=(), gains=(), **more):
    """Return the tables of one card with these rows of summary.csv and of gains.csv."""
    return tables(
        folder, recordings=[recording("card")], summary=list(cells), gains=list(gains), **more
    )


def gain_row(variant, n, best, spread):
    """Return a row of gains.csv with a gain over the best CPU version, `blocked` on one core."""
    named = {"source": "card", "variant": variant, "n": n, "block_size": 32}
    cpu = {"cpu_best_variant": "blocked", "cpu_best_block_size": 64}
    return named | {"host_memory": "pageable"} | cpu | interval("cpu_best_gain", best, spread)


def pinned(variant, n, total_s, **more):
    return gpu_cell("card", variant, n, total_s, memory="pinned", **more)


def test_every_subject_has_three_answers_in_the_same_order(tmp_path):
    rows = [recording("card"), recording("host", gpu=False)]
    results = tables(tmp_path, recordings=rows, summary=[cpu_cell("host", "naive", 512, 0.2)])
    for subject in subjects(results):
        found = answers(results, subject)
        assert [answer.topic for answer in found] == ["way", "gain", "worth"]
    assert {answer.verdict for answer in answers(results, subjects(results)[0])} == {"not measured"}


# ---- the fastest way


def test_fastest_way_is_that_of_the_largest_order_over_all_kinds_of_host_memory(tmp_path):
    cells = [
        gpu_cell("card", "block", 512, 0.001),
        gpu_cell("card", "block", 1024, 0.010),
        pinned("naive", 1024, 0.006),
        pinned("block", 1024, 0.004, block_size=16),
    ]
    word, number, text = said(study(tmp_path, cells), "way")
    assert (word, number) == ("gain", "4.000 ms")
    assert "order 1024, copies included, is block (B = 16) from pinned host memory: 4.000" in text
    assert "(3.960 to 4.040)" in text
    assert "; the next, naive (B = 32), takes 6.000 ms" in text
    assert "; from pageable memory no way takes less than 10.00 ms" in text


def test_the_library_is_a_way_too_and_named_as_what_it_is(tmp_path):
    cells = [
        pinned("cublas_sgemm", 1024, 0.004, block_size=None),
        pinned("naive", 1024, 0.008),
        pinned("block", 1024, 0.005),
    ]
    _, number, text = said(study(tmp_path / "first", cells), "way")
    assert number == "4.000 ms"
    assert "is cublas_sgemm, NVIDIA's own library, from pinned" in text
    assert "; the fastest kernel of this study, block (B = 32), takes 5.000 ms" in text
    third = [*cells[1:], pinned("cublas_sgemm", 1024, 0.009, block_size=None)]
    _, _, text = said(study(tmp_path / "third", third), "way")
    assert "; the next, naive (B = 32), takes 8.000 ms" in text
    assert "; NVIDIA's own library, cublas_sgemm, takes 9.000 ms" in text
    assert said(study(tmp_path / "second", [cells[0], third[1]]), "way")[2].count("library") == 1


@pytest.mark.parametrize(
    ("spread", "word", "words"),
    [
        (0.001, "gain", "takes 4.100 ms (4.096 to 4.104)."),
        (0.2, "undecided", "(undecided: the intervals overlap)"),
        (None, "no interval", "(undecided: there are no intervals)"),
    ],
)
def test_what_the_intervals_leave_open_is_undecided(tmp_path, spread, word, words):
    cells = [
        pinned("block", 512, 0.004, spread=spread),
        pinned("naive", 512, 0.0041, spread=spread),
    ]
    found, _, text = said(study(tmp_path, cells), "way")
    assert found == word
    assert words in text


def test_a_host_without_gpu_answers_for_its_cpu(tmp_path):
    cells = [cpu_cell("host", "naive", 512, 0.2), cpu_cell("host", "blocked", 512, 0.1, 64)]
    host = {"recordings": [recording("host", gpu=False)]}
    results = tables(tmp_path / "host", **host, summary=cells)
    word, number, text = said(results, "way")
    assert (word, number) == ("gain", "100.0 ms")
    assert "No GPU was measured; the fastest way on this host's CPU" in text
    assert "is blocked (B = 64) on one core" in text
    for topic in ("gain", "worth"):
        assert said(results, topic)[:2] == ("not measured", "–")
    nothing = tables(tmp_path / "nothing", **host)
    assert said(nothing, "way")[0] == "not measured"
    assert "Neither a GPU nor the CPU" in said(nothing, "way")[2]


# ---- the gain over the CPU


@pytest.mark.parametrize(
    ("gain", "word", "words"),
    [
        ((40.0, 0.01), "gain", "is faster than the fastest that its CPU did"),
        ((0.5, 0.01), "loss", "loses against the fastest that its CPU did"),
        ((1.01, 0.2), "undecided", "can be told neither faster nor slower"),
        ((40.0, None), "no interval", "too few samples to claim anything"),
    ],
)
def test_gain_is_worded_by_its_interval(tmp_path, gain, word, words):
    results = study(tmp_path, gains=[gain_row("block", 1024, *gain)])
    found, number, text = said(results, "gain")
    assert found == word
    assert number == f"{gain[0]:.3g} ×".replace("40 ", "40.0 ").replace("0.5 ", "0.500 ")
    assert words in text
    assert "blocked (B = 64) on one core: " in text


def test_gain_is_of_the_fastest_way_at_the_largest_order_that_both_took(tmp_path):
    elsewhere = gain_row("block", 1024, 9.0, 0.01) | {"host_memory": "pinned"}
    gains = [
        gain_row("block", 512, 99.0, 0.01),
        gain_row("block", 1024, 7.0, 0.01),
        gain_row("naive", 1024, 2.0, 0.01),
        elsewhere,
        {"source": "card", "n": 2048, "variant": "block", "host_memory": "pinned"},
    ]
    _, number, text = said(study(tmp_path, gains=gains), "gain")
    assert number == "9.00 ×"
    assert "At N = 1024, the largest order measured on both, block (B = 32) from pinned" in text
    assert "; from pageable memory 7.00 × (6.93 to 7.07)" in text
    assert "; over BLAS on all cores, the fair yardstick, the gain was not measured." in text


def test_other_yardsticks_are_given_where_they_were_measured(tmp_path):
    row = gain_row("block", 1024, 7.0, 0.01) | {"cpu_naive_gain": 5000.0}
    _, _, text = said(study(tmp_path, gains=[row]), "gain")
    assert "; over the naive loop, the source's yardstick, 5000 × (no interval)" in text
    assert text.endswith("over BLAS on all cores, the fair yardstick, the gain was not measured.")


def test_all_cores_of_the_cpu_are_the_yardstick_where_they_were_measured(tmp_path):
    row = gain_row("block", 1024, 7.0, 0.01) | {"cpu_best_threads": 16}
    row |= {"cpu_blas_all_gain": 7.0, "cpu_blas_gain": 90.0}
    _, _, text = said(study(tmp_path, gains=[row]), "gain")
    assert "blocked (B = 64) on all cores: 7.00 ×" in text
    assert "; over BLAS on one thread 90.0 ×" in text
    assert "not measured" not in text


# ---- from which order on


def worth(folder, *gains):
    """Return the answer for gains at the orders 256, 512, 1024, …"""
    rows = [gain_row("block", 256 << place, *gain) for place, gain in enumerate(gains)]
    return said(study(folder, gains=rows), "worth")


WON, LOST, OPEN = (3.0, 0.01), (0.5, 0.01), (1.01, 0.2)


def test_it_pays_from_the_order_on_above_which_every_gain_is_settled(tmp_path):
    word, number, text = worth(tmp_path / "a", LOST, OPEN, WON, WON)
    assert (word, number) == ("gain", "from N = 1024")
    assert "pays from N = 1024 on: there the gain is 3.00 × (2.97 to 3.03)" in text
    assert "; at N = 512, the next smaller order, it is undecided, 1.01 ×" in text
    _, number, text = worth(tmp_path / "b", WON, LOST, WON)
    assert number == "from N = 1024", "a gain below a loss is no start"
    assert "it is a loss, 0.500 × (0.495 to 0.505)" in text


def test_where_it_pays_everywhere_the_break_even_lies_below(tmp_path):
    word, number, text = worth(tmp_path, WON, WON)
    assert (word, number) == ("gain", "below N = 256")
    assert "pays at every order measured on both, from N = 256 to 512" in text
    assert "was not reached" in text


@pytest.mark.parametrize(
    ("last", "word", "words"),
    [(LOST, "loss", "a loss, 0.500 ×"), (OPEN, "undecided", "undecided, 1.01 ×")],
)
def test_where_it_never_pays_for_certain_that_is_said(tmp_path, last, word, words):
    found, number, text = worth(tmp_path, WON, last)
    assert (found, number) == (word, "not up to N = 512")
    assert "does not pay for certain at any measured order" in text
    assert words in text


# ---- the break-even, where it was computed


def break_even(n, low, high, place="measured", memory="pinned", opponent="best", **more):
    """Return a row of break_even.csv: lost at 256, won from 512 on, measured from 128 to 1024."""
    bounds = {"n": n, "n_low": low, "n_high": high, "loses_at": 256, "wins_at": 512}
    named = {"gpu": "card", "host_memory": memory, "kernels": "study", "opponent": opponent}
    return named | {"place": place, "least_n": 128, "largest_n": 1024} | bounds | more


@pytest.mark.parametrize(
    ("row", "word", "number", "words"),
    [
        (
            break_even(300.2, 280.0, 333.0),
            *("gain", "from N = 300"),
            "beats its CPU from N = 300 (280 to 333) on, between N = 256 and N = 512.",
        ),
        (
            break_even(60.0, 0.0, 70.0, "below"),
            *("gain", "below N = 128"),
            "already at N = 128, the smallest order measured, extrapolated: N = 60 (at most 70).",
        ),
        (
            break_even(3000.0, 2000.0, INFINITE, "beyond"),
            *("loss", "not up to N = 1024"),
            "never in the measured range, up to N = 1024, extrapolated: N = 3000 (at least 2000).",
        ),
        (
            break_even(0.0, 0.0, 0.0, "always"),
            "gain",
            "every N",
            "already at N = 128, the smallest order measured.",
        ),
        (
            break_even(INFINITE, INFINITE, INFINITE, "never"),
            *("loss", "not up to N = 1024"),
            "beats its CPU never in the measured range, up to N = 1024.",
        ),
    ],
)
def test_break_even_is_worded_by_its_place(tmp_path, row, word, number, words):
    found = said(study(tmp_path, break_even=[row]), "worth")
    assert found[:2] == (word, number)
    assert found[2].endswith(words)


def test_break_even_is_the_least_of_all_ways_against_the_fastest_cpu(tmp_path):
    rows = [
        break_even(500.0, 450.0, 550.0, memory="pageable"),
        break_even(400.0, 350.0, 450.0),
        break_even(300.0, 250.0, 350.0, kernels="library"),
        break_even(20.0, 10.0, 30.0, opponent="naive"),
        break_even(10.0, 5.0, 20.0, gpu="another"),
    ]
    _, number, text = said(study(tmp_path, break_even=rows), "worth")
    assert number == "from N = 300"
    assert "Copies from and to pinned memory included, this card beats its CPU from N = 300" in text
    assert "; with pageable memory from N = 500 (450 to 550) on" in text


# ---- the figure


def figure(results):
    """Return the texts of the figure of the only subject."""
    summary = order_cells(results)
    (subject,) = subjects(results)
    with style.theme():
        drawings = list(
            of_headline(results, subject, "x", summary.assign(is_cpu=summary["device"] == CPU))
        )
    return [
        [text.get_text() for text in drawing.figure.axes[0].texts if text.get_text()]
        for drawing in drawings
    ]


def test_figure_names_its_lines_and_shows_the_gain_of_the_answer(tmp_path):
    cells = [
        gpu_cell("card", "block", 512, 0.001),
        pinned("block", 512, 0.0005),
        cpu_cell("card", "naive", 512, 0.3),
        cpu_cell("card", "blocked", 512, 0.1, 64),
    ]
    gains = [gain_row("block", 512, 100.0, 0.01)]
    assert figure(study(tmp_path / "all", cells, gains)) == [
        [
            *("CPU, naive loop", "CPU, one core", "GPU, pageable memory", "GPU, pinned memory"),
            "100\u00a0×",
        ]
    ]
    assert figure(study(tmp_path / "gpu", cells[:1])) == [["GPU, pageable memory"]]
    assert figure(study(tmp_path / "none")) == []
