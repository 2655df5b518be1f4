"""Cards side by side: the fastest way on each, and its ratio to the first."""

import math

import numpy as np
import pytest

from analysis.data import recordings as data
from analysis.overview.cards import cards_table, verdict
from tests.support.report_data import rewritten

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
    return cards_of(recordings)


def cards_of(recordings):
    sources = data.sources(recordings)
    return cards_table(sources, data.summary_table(sources))


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
        assert cards_of(recordings).empty
