"""The fleet: source V's Figure 2 as a table, and what ranks the kinds of GPU as it does."""

import numpy as np
import pandas as pd
import pytest

from analysis.data import ceilings
from analysis.data import recordings as data
from analysis.published.figures import FIGURES
from analysis.published.fleet import (
    DOES_NOT_HOLD,
    HOLDS,
    NOT_SHOWN,
    RANKS_ALIKE,
    TOO_FEW,
    fleet_ranks_table,
    fleet_table,
)
from tests.support.figures import device, drawn, nothing, stored
from tests.support.report_data import frame


def cards(speeds, **properties):
    """Return rows of fleet.csv, each of a kind of its own, with these rates of the kernel."""
    rows = [
        {
            "gpu": f"card{place}",
            "gpu_name": f"Kind {place}",
            "recording": f"card{place}",
            "simulated": False,
            "n": 2048,
            "kernel_variant": "block",
            "kernel_block_size": 32,
            "kernel_flop_per_s": speed,
            "kernel_flop_per_low_s": 0.9 * speed,
            "kernel_flop_per_high_s": 1.1 * speed,
            "pinned_flop_per_s": speed / 2,
            "link_bytes_per_s": 1e9 * (1 + place % 2),
            **{name: values[place] for name, values in properties.items()},
        }
        for place, speed in enumerate(speeds)
    ]
    return frame("fleet", rows)


def verdicts(fleet, quantity="kernel"):
    ranks = fleet_ranks_table(fleet)
    return ranks[ranks["quantity"] == quantity].set_index("property")


def balanced(count=20):
    """Return GPUs whose speed is the smaller of two things that have nothing to do together."""
    rng = np.random.default_rng(5)
    units, memory = 10.0 ** rng.uniform(12, 14, count), 10.0 ** rng.uniform(12, 14, count) / 8
    allowed = np.minimum(units, 8 * memory)
    named = {"fma_flop_per_s": units, "memory_bytes_per_s": memory}
    return cards(
        allowed, **named, roofline_flop_per_s=allowed, multiprocessors=np.round(units / 1e11)
    )


def test_every_card_has_its_fastest_kernel_of_the_source_and_what_it_can_do(gpu_recording):
    sources = data.sources({"card": gpu_recording})
    summary = data.summary_table(sources)
    (row,) = fleet_table(sources, summary, ceilings.ceilings_table(sources)).to_dict("records")
    own = summary[(summary["gpu"] == "card") & (summary["n"] == 2048) & (summary["m"] == 2048)]
    own = own[own["variant"].isin(["naive", "block", "block_strided", "block_unroll4"])]
    own = pd.concat(
        [own, summary[(summary["variant"] == "block_unroll8") & (summary["n"] == 2048)]]
    )
    best = own.loc[own["kernel_s"].idxmin()]
    assert row["kernel_flop_per_s"] == pytest.approx(2 * 2048**3 / best["kernel_s"])
    assert row["kernel_flop_per_low_s"] == pytest.approx(2 * 2048**3 / best["kernel_high_s"])
    assert (row["kernel_variant"], row["n"]) == (best["variant"], 2048)
    totals = own[own["host_memory"] == "pageable"]["total_s"]
    assert row["pageable_flop_per_s"] == pytest.approx(2 * 2048**3 / totals.min())
    assert row["multiprocessors"] == 100
    assert row["memory_bytes_per_s"] == pytest.approx(2.5e12, rel=0.02)
    assert row["link_bytes_per_s"] == pytest.approx(5e10, rel=0.02), "of the largest copy, pinned"
    assert row["roofline_flop_per_s"] == pytest.approx(8 * row["memory_bytes_per_s"])


def test_the_claim_holds_where_both_together_rank_the_cards_and_neither_alone_does():
    found = verdicts(balanced())
    assert found.loc["balance", "verdict"] == HOLDS
    assert found.loc["balance", "rank_correlation"] == pytest.approx(1)
    assert found.loc["link", "verdict"] == NOT_SHOWN
    assert (found["kinds"] == 20).all()


def test_the_claim_does_not_hold_where_one_property_ranks_them_better():
    fleet = balanced().assign(kernel_flop_per_s=lambda all_: all_["fma_flop_per_s"])
    found = verdicts(fleet)
    assert found.loc["FMA rate", "verdict"] == RANKS_ALIKE
    assert found.loc["balance", "verdict"] == DOES_NOT_HOLD
    assert verdicts(fleet, "pinned").loc["balance", "verdict"] == HOLDS


def test_where_memory_limits_every_card_nothing_tells_the_balance_from_bandwidth():
    fleet = balanced().assign(
        kernel_flop_per_s=lambda all_: all_["memory_bytes_per_s"],
        roofline_flop_per_s=lambda all_: 8 * all_["memory_bytes_per_s"],
    )
    assert verdicts(fleet).loc["balance", "verdict"] == "undecided"


def test_of_few_kinds_nothing_is_said_and_cards_of_a_kind_are_one():
    few = balanced(5)
    assert set(verdicts(few)["verdict"]) == {TOO_FEW}
    assert verdicts(few)["rank_correlation"].isna().all()
    again = pd.concat([few, few, few.assign(kernel_flop_per_s=1.0)], ignore_index=True)
    assert set(verdicts(again)["kinds"]) == {5}


def test_simulated_cards_take_part_where_nothing_else_does():
    mixed = balanced().assign(simulated=[True] * 10 + [False] * 10)
    assert set(verdicts(mixed)["kinds"]) == {10}
    assert set(verdicts(balanced().assign(simulated=True))["kinds"]) == {20}


def test_without_a_card_both_tables_are_empty(cpu_recording):
    sources = data.sources({"host": cpu_recording})
    summary = data.summary_table(sources)
    fleet = fleet_table(sources, summary, ceilings.ceilings_table(sources))
    assert fleet.empty
    assert fleet_ranks_table(fleet).empty


# ---- drawn


def rows(fleet):
    return [{k: v for k, v in row.items() if pd.notna(v)} for row in fleet.to_dict("records")]


def test_figure_2_has_every_card_with_its_interval_however_many(tmp_path):
    fleet = cards([1e12 * (1 + place) for place in range(30)])
    listed = [device(f"card{place}", recording=f"card{place}") for place in range(30)]
    found = drawn(FIGURES["figure2"], stored(tmp_path, fleet=rows(fleet), recordings=listed))
    assert {f"card{place}" for place in range(30)} <= set(found.texts)
    said = "kernel alone, block, B = 32, N = 2048: 30 000 GFLOP/s (27 000 to 33 000)"
    assert said in found.said


@pytest.mark.slow
def test_cards_of_two_kinds_are_drawn_over_what_they_are(tmp_path):
    fleet = balanced(3)
    listed = [device(f"card{place}", recording=f"card{place}") for place in range(3)]
    found = drawn(FIGURES["fleet"], stored(tmp_path, fleet=rows(fleet), recordings=listed))
    assert sum(text.startswith("card1, kernel alone") for text in found.said) == 4


def test_one_kind_of_card_is_not_drawn(tmp_path):
    fleet = balanced(2).assign(gpu_name="Card")
    assert nothing(FIGURES["fleet"], stored(tmp_path, fleet=rows(fleet)))
