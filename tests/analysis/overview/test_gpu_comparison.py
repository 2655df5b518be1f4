"""GPUs side by side: the fastest way on each, and its ratio to the first."""

import math
from itertools import product

import numpy as np
import pytest

from analysis.data import recordings as data
from analysis.data.sessions import together
from analysis.domain import KERNEL_ONLY, ONE_SESSION
from analysis.overview.gpu_comparison import (
    FROM_OTHERS,
    SEVERAL,
    TOGETHER,
    gpu_comparison_table,
    verdict,
)
from analysis.stats.sessions import LENGTHS
from tests.support.report_data import frame, rewritten

pytestmark = pytest.mark.slow
NAN = math.nan


@pytest.fixture(scope="module")
def recordings(make_recording, tmp_path_factory):
    """Two GPUs of a kind, of which the second takes half as long for all but the copies."""
    base = tmp_path_factory.mktemp("recorded")
    first = make_recording(base / "first", sizes=(256, 512), samples=8)
    other = make_recording(base / "other", sizes=(256, 512, 1024), samples=8, seed=3)
    samples = other.samples.copy()
    samples["in_run_kernel_s"] /= 2
    return {"first": first, "other": rewritten(other, samples=samples)}


@pytest.fixture(scope="module")
def cards(recordings):
    return cards_of(recordings, deviations(1e-4))


def cards_of(recordings, known=()):
    """Return the table where sessions of other GPUs are as these rows of sessions.csv say."""
    sources = data.sources(recordings)
    return gpu_comparison_table(
        sources, data.summary_table(sources), frame("sessions", list(known))
    )


def deviations(log_sd, degrees_of_freedom=50.0):
    """Return rows of sessions.csv: kinds of every length, all with this deviation."""
    kinds = product(("total", "kernel"), ("pinned", "pageable"), LENGTHS)
    of_card = {
        "recording": "known",
        "gpu": "known",
        "sessions": 3,
        "degrees_of_freedom": degrees_of_freedom,
    }
    return [
        of_card
        | {"quantity": part, "host_memory": memory, "length": length, "between_log_sd": log_sd}
        | {"host_work": False if part == "total" else None}
        for part, memory, length in kinds
    ]


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
    assert set(both["basis"]) == {FROM_OTHERS}
    assert (both[["sessions", "first_sessions"]] == 1).all(axis=None)


def test_a_card_of_one_session_has_an_interval_as_wide_as_sessions_of_others_lie_apart(
    cards, recordings
):
    wide = cards_of(recordings, deviations(0.1))
    widths = [np.log(each["ratio_high"] / each["ratio_low"]).dropna() for each in (cards, wide)]
    assert (widths[1] > widths[0]).all()
    # Both GPUs have one session: t(50) · √2 · 0.1 to either side, and the noise of the samples.
    assert widths[1].median() == pytest.approx(2 * 2.0086 * 2**0.5 * 0.1, rel=0.1)
    few = cards_of(recordings, deviations(0.1, degrees_of_freedom=2.0))
    assert np.log(few["ratio_high"] / few["ratio_low"]).median() > 1.8 * widths[1].median()


def test_one_session_each_tells_no_card_from_another(recordings):
    cards = cards_of(recordings)
    both = cards[cards["ratio"].notna()]
    assert set(both["basis"]) == set(both["verdict"]) == {ONE_SESSION}
    assert both["ratio_low"].notna().all(), "the interval within the sessions stands"


def test_cards_of_the_same_sessions_are_compared_as_they_are(make_recording, tmp_path):
    pair = make_recording(tmp_path / "pair", sizes=(256, 512), samples=8, gpus=2)
    cards = cards_of({"pair": pair}, deviations(0.5))
    both = cards[cards["ratio"].notna()]
    assert set(both["basis"]) == {TOGETHER}
    assert np.log(both["ratio_high"] / both["ratio_low"]).max() < 0.5


def test_cards_of_several_sessions_have_the_deviations_of_their_own(make_recording, tmp_path):
    made = [
        make_recording(tmp_path / f"{n}", sizes=(256,), holdout=(), samples=8, seed=n)
        for n in range(4)
    ]
    cards = cards_of({"first": together(made[:2]), "other": together(made[2:])})
    both = cards[cards["ratio"].notna()]
    assert set(both["basis"]) == {SEVERAL}
    assert (both[["sessions", "first_sessions"]] == 2).all(axis=None)
    assert both["verdict"].isin(("same", "undecided")).all()


def test_no_card_gives_an_empty_table(cpu_recording):
    for recordings in ({}, {"host": cpu_recording}):
        assert cards_of(recordings).empty


def test_what_only_one_card_was_measured_with_does_not_count(recordings):
    sources = data.sources(recordings)
    summary = data.summary_table(sources)
    every = gpu_comparison_table(sources, summary, frame("sessions", []))
    best = every.loc[(every["gpu"] == "other") & (every["n"] == 512), "variant"]
    lost = summary["variant"].isin(best) & (summary["gpu"] == "first")
    found = gpu_comparison_table(sources, summary[~lost], frame("sessions", []))
    assert set(found["gpu"]) == {"first", "other"}
    assert not set(found["variant"]) & set(best)


def test_short_kernels_with_the_host_in_them_are_not_held_against_those_without(recordings):
    sources = data.sources(recordings)
    summary = data.summary_table(sources)
    alone = summary["kernel_timing"].mask(summary["gpu"] == "other", KERNEL_ONLY)
    found = gpu_comparison_table(
        sources, summary.assign(kernel_timing=alone), frame("sessions", [])
    )
    kernels = found[found["quantity"] == "kernel"]
    in_pass = kernels[kernels["gpu"] == "first"]
    assert (in_pass["time_s"] >= 1e-3).all()
    assert set(kernels.loc[kernels["gpu"] == "other", "n"]) == {256, 512, 1024, 1536}
    assert set(found.loc[found["quantity"] == "total", "n"]) == {256, 512, 1024, 1536}
