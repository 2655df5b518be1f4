"""Cards side by side: the fastest way on each, its ratio to the first, and what is said of it."""

import math
import re

import numpy as np
import pandas as pd
import pytest
from analysis.cards_report import cards_sentences, common_order
from analysis.cards_report import cards_table as shown_table
from analysis.results import Results, subjects

from analysis.data import recordings as data
from analysis.overview.cards import COLUMNS, cards_table, verdict
from tests.support.report_data import (
    Page,
    gpu_cell,
    recording,
    report,
    rewritten,
    tables,
    traced_tables,
)

NAN = math.nan


@pytest.fixture(scope="module")
def recordings(make_recording, tmp_path_factory):
    """Two cards of a kind, of which the second takes half as long for all but the copies."""
    base = tmp_path_factory.mktemp("recorded")
    first = make_recording(base / "first", sizes=(256, 512), samples=8)
    other = make_recording(base / "other", sizes=(256, 512, 1024), samples=8, seed=3)
    samples = other.samples.copy()
    samples["kernel_s"] /= 2
    return {"first": first, "other": rewritten(other, samples=samples)}


@pytest.fixture(scope="module")
def cards(recordings):
    return cards_table(data.sources(recordings))


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (0.5, 0.97, "faster"),
        (0.5, 0.99, "undecided"),
        (0.99, 1.01, "same"),
        (0.99, 1.03, "undecided"),
        (1.01, 1.5, "undecided"),
        (1.03, 1.5, "slower"),
        (NAN, NAN, "no interval"),
    ],
)
def test_verdict_is_on_the_whole_interval_and_on_what_would_matter(low, high, word):
    assert verdict(low, high) == word


def test_every_card_order_and_quantity_has_its_fastest_way(cards, recordings):
    assert list(cards) == COLUMNS
    keys = ["gpu", "n", "quantity", "host_memory"]
    assert not cards.duplicated(keys).any()
    orders = {name: set(rows["n"]) for name, rows in cards.groupby("gpu")}
    assert orders == {"first": {256, 512, 1536}, "other": {256, 512, 1024, 1536}}
    cells = data.sources(recordings)[0].orders
    cells = cells[(cells["n"] == 512) & (cells["host_memory"] == "pinned")]
    own = cards[(cards["gpu"] == "first") & (cards["n"] == 512)]
    for quantity in ("total", "kernel"):
        row = own[(own["quantity"] == quantity) & (own["host_memory"] == "pinned")].iloc[0]
        best = cells.loc[cells[f"{quantity}_s"].idxmin()]
        assert (row["variant"], row["time_s"]) == (best["variant"], best[f"{quantity}_s"])
        assert row["time_high_s"] == best[f"{quantity}_high_s"]


def test_ratio_is_the_time_over_that_on_the_first_card_that_took_the_order(cards):
    first = cards[cards["gpu"] == "first"]
    assert first[["ratio", "ratio_low", "ratio_high", "verdict"]].isna().all(axis=None)
    assert set(first["first"]) == {"first"}
    alone = cards[(cards["gpu"] == "other") & (cards["n"] == 1024)]
    assert set(alone["first"]) == {"other"}
    assert alone["ratio"].isna().all()
    both = cards[cards["ratio"].notna()]
    assert len(both) == 3 * 4
    kernels = both[both["quantity"] == "kernel"]
    assert np.allclose(kernels["ratio"], 0.5, rtol=0.03)
    assert (kernels["ratio_low"] <= kernels["ratio"]).all()
    assert (kernels["ratio"] <= kernels["ratio_high"]).all()
    assert set(kernels["verdict"]) == {"faster"}


def test_no_card_gives_an_empty_table(cpu_recording):
    for recordings in ({}, {"host": cpu_recording}):
        table = cards_table(data.sources(recordings))
        assert list(table) == COLUMNS
        assert table.empty


# ---- what is said and shown


def row(gpu, n, quantity="total", memory="pinned", ratio=None, word=None, first="a"):
    bounds = {} if ratio is None else {"ratio_low": ratio * 0.99, "ratio_high": ratio * 1.01}
    named = {"gpu": gpu, "n": n, "quantity": quantity, "host_memory": memory, "variant": "block"}
    times = {"time_s": 0.01, "time_low_s": 0.009, "time_high_s": 0.011}
    return named | times | {"first": first, "ratio": ratio, "verdict": word} | bounds


def two(folder, *rows, names=("Card", "Card")):
    gpus = [recording(label, gpu_name=name) for label, name in zip("ab", names, strict=True)]
    results = tables(folder, recordings=gpus, cards=list(rows))
    return results, subjects(results)


def said(results, gpus):
    return [(gpu.label, str(s).replace("\u00a0", " ")) for gpu, s in cards_sentences(results, gpus)]


def test_sentence_gives_the_ratios_at_the_largest_common_order(tmp_path):
    rows = [
        row("a", 512),
        row("b", 512, ratio=0.5, word="faster"),
        row("b", 512, memory="pageable", ratio=1.5, word="slower"),
        row("a", 256),
        row("b", 256, ratio=9.0, word="slower"),
        row("b", 4096, first="b"),
    ]
    results, gpus = two(tmp_path, *rows, names=("Card", "Other"))
    assert common_order(results.frame("cards")) == 512
    ((label, text),) = said(results, gpus)
    assert label == "b"
    assert text.startswith("At N = 512 its fastest way takes, of the time on a, 0.5000 (0.4950 to")
    assert (
        "from pinned memory: faster; 1.500 (1.485 to 1.515) from pageable memory: slower." in text
    )
    assert "kind" not in text


def test_sentence_says_where_two_recordings_are_of_one_kind(tmp_path):
    results, gpus = two(tmp_path, row("a", 512), row("b", 512, ratio=1.1, word="slower"))
    assert "Both are of one kind of card" in said(results, gpus)[0][1]


def test_without_a_common_order_nothing_is_compared(tmp_path):
    results, gpus = two(tmp_path, row("a", 512), row("b", 256, first="b"))
    assert common_order(results.frame("cards")) is None
    assert said(results, gpus) == []
    table = shown_table(results, gpus, "x")
    assert [cell.parts for cell in table.rows[0].cells[2:]] == [("–",)] * 11


def test_the_part_stands_in_the_page_with_its_numbers_traced(recordings, tmp_path):
    text = report(tmp_path, {name: made.path for name, made in recordings.items()})
    page = Page(text)
    assert "cards" in traced_tables(page, Results(tmp_path / "tables"))
    section = re.search(r'<section id="compared".*?</section>', text, re.DOTALL).group()
    assert 'id="figure-cards"' in section
    assert section.count("<dt>") == 1
    assert len(re.findall(r"<tr", section)) == 3
    assert "Both are of one kind of card" in section


def test_one_card_alone_has_nothing_to_be_held_against(make_recording, tmp_path):
    made = make_recording(tmp_path / "card", sizes=(256,), holdout=(), samples=6)
    section = re.search(
        r'<section id="compared".*?</section>', report(tmp_path, {"card": made.path}), re.DOTALL
    ).group()
    assert "One card was measured" in section
    assert "<dt>" not in section
    assert "figure-cards" not in section
    assert pd.read_csv(tmp_path / "tables" / "cards.csv")["ratio"].isna().all()


def test_cells_of_the_page_survive_a_card_without_cells(tmp_path):
    results = tables(
        tmp_path, recordings=[recording("a")], summary=[gpu_cell("a", "block", 64, 0.1)]
    )
    assert cards_sentences(results, subjects(results)) == []
    assert len(shown_table(results, subjects(results), "x").rows) == 1
