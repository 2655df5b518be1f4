"""The report's part on trust: sentences and tables that follow the numbers, figures, blanks."""

import json
import math
import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from report_data import (
    Page,
    chain,
    gpu_cell,
    interval,
    recording,
    report,
    rewritten,
    square,
    tables,
    traced_tables,
)

from analysis import plots, style, trust_views
from analysis.results import Results
from analysis.trust_findings import agreement_sentences, trust_findings
from analysis.views import Table
from measurement.recording import CELL

NEW = {"telemetry", "batches", "cold_starts", "ceilings", "phases", "neighbours", "agreement"}


@pytest.fixture(scope="module")
def base(make_recording, tmp_path_factory):
    """The report on a host with two cards, with throttled samples, and on another such card."""
    base = tmp_path_factory.mktemp("trust")
    options = {"sizes": (256, 512), "holdout": ()}
    two = make_recording(base / "two", gpus=2, throttled=2, noise=0.02, **options)
    again = make_recording(base / "again", seed=4, noise=0.03, **options)
    report(base, {"two": two.path, "again": again.path})
    return base


@pytest.fixture(scope="module")
def text(base):
    return (base / "report.html").read_text()


@pytest.fixture(scope="module")
def section(text):
    return re.search(r'<section id="trust".*?\n</section>\n\n', text, re.DOTALL).group()


# ---- the page


def test_every_number_is_traced_and_shown_in_its_unit(base, text):
    page = Page(text)
    assert traced_tables(page, Results(base / "tables")) >= NEW | {"agreement_cells"}
    ids = page.attributes("id")
    assert len(ids) == len(set(ids))


def test_the_section_has_its_tables_figures_and_sentences(section):
    for name in ("agreement", "apart", "neighbours", "cold-starts", "ceilings", "phases"):
        assert f'id="table-{name}"' in section, name
    for name in ("links", "launches"):
        assert f'id="figure-{name}"' in section, name
    for label in ("two-gpu0", "two-gpu1", "again"):
        assert f'id="trust-{label}"' in section
    assert "<dt><code>two-gpu0 and again</code></dt>" in section
    assert "is not known" not in section


def test_probes_are_listed_as_a_build_and_nowhere_as_a_variant(base, text):
    assert (
        "<code>probes</code>"
        in re.search(r'id="table-builds-two".*?</figure>', text, re.DOTALL).group()
    )
    for name in ("summary", "gains", "model_predictions"):
        assert "probes" not in (base / "tables" / f"{name}.csv").read_text()
    for path in (base / "figures").glob("*.svg"):
        assert "probes" not in path.read_text()


def test_one_card_says_what_is_not_known(make_recording, tmp_path):
    made = make_recording(tmp_path / "card", sizes=(256,), holdout=(), samples=6)
    none = {name: getattr(made, name)[:0] for name in ("batches", "cold_starts", "neighbours")}
    page = report(tmp_path, {"card": rewritten(made, **none).path})
    assert "No two recordings are of the same kind of card" in page
    assert "No recording is of a host with several GPUs" in page
    for name in ("table-agreement", "table-neighbours", "table-cold-starts", "figure-launches"):
        assert f'id="{name}"' not in page, name
    assert 'id="figure-links"' in page


# ---- sentences


def said(results, topic, label="card"):
    """Return verdict and text of the one sentence on a topic, or None."""
    found = next(f for f in trust_findings(results) if f.subject.label == label)
    sentences = [s for s in found.sentences if s.topic == topic]
    assert len(sentences) < 2
    if not sentences:
        return None
    return sentences[0].verdict, str(sentences[0]).replace("\u00a0", " ").replace("\u202f", " ")


CELL_ROW = {"recording": "card", "gpu": "card", "device": "gpu0", "dtype": "float32"}


def state(n, samples, marked, total=1.0, unmarked=None, kernel=1.0, reasons="sw_power_cap"):
    """A row of telemetry.csv."""
    return CELL_ROW | {
        "variant": "block",
        **square(n),
        "block_size": 8,
        "host_memory": "pinned",
        "samples": samples,
        "samples_throttled": marked,
        "throttle_reasons": reasons if marked else None,
        "total_s": total,
        "kernel_s": kernel,
        "unmarked_total_s": unmarked,
        "unmarked_kernel_s": None if unmarked is None else kernel * 0.875,
    }


def card(folder, **rows):
    return tables(folder, recordings=[recording("card")], **rows)


def test_throttled_samples_are_counted_with_their_reasons_and_what_they_change(tmp_path):
    rows = [
        state(256, 10, 2, unmarked=0.99),
        state(512, 20, 1, 2.0, 1.9, reasons="sw_power_cap + hw_slowdown"),
        state(1024, 5, 5),
        state(2048, 65, 0, unmarked=5.0),
    ]
    word, text = said(card(tmp_path, telemetry=rows), "throttling")
    assert word == "stated"
    assert text.startswith(
        "The card throttled during 8 of its 100 samples (8.0 %; hw_slowdown, sw_power_cap)."
    )
    assert "of the total time by 5.0 % at most (block (B = 8), N = 512, pinned)" in text
    assert "and that of the kernel time by 12 % at most" in text
    assert text.endswith("Cells in which every sample is marked: 1.")


def test_no_throttling_and_no_telemetry_are_told_apart(tmp_path):
    _, text = said(card(tmp_path, telemetry=[state(256, 10, 0)]), "throttling")
    assert text == "The card throttled during none of its 10 samples."
    word, text = said(card(tmp_path, telemetry=[state(256, 10, None)]), "throttling")
    assert word == "not measured"
    assert "was not recorded" in text


def ceiling(quantity, value, **more):
    return CELL_ROW | {"quantity": quantity} | interval("value", value, 0.01) | more


def trimmed(row):
    return {key: value for key, value in row.items() if key != "dtype"}


def test_clock_and_events_stand_beside_the_shortest_pass_and_kernel(tmp_path):
    rows = [("timer_resolution_s", 4e-8), ("empty_total_s", 1.2e-5), ("empty_kernel_s", 2e-6)]
    cells = [gpu_cell("card", "block", 512, 4e-4), gpu_cell("card", "naive", 256, 1e-4)]
    cells[0]["kernel_s"] = 1e-5
    ceilings = [trimmed(ceiling(*row)) for row in rows]
    _, text = said(card(tmp_path, ceilings=ceilings, summary=cells), "clock")
    assert "in steps of 40.0 ns (39.6 to 40.4)" in text
    assert "nothing to do takes 12.0 µs (11.9 to 12.1)" in text
    assert "the shortest that was timed 100 µs (naive (B = 32), N = 256)" in text
    assert "nothing between them are 2.00 µs" in text
    assert text.endswith(
        "the shortest kernel between them takes 10.0 µs (block (B = 32), N = 512)."
    )
    assert said(card(tmp_path), "clock")[0] == "not measured"


def phase(name, wall_s, busy_s, **more):
    known = {"recording": "card", "gpu": "card", "device": "gpu0", "phase": name}
    return known | {"wall_s": wall_s, "busy_s": busy_s} | more


def test_time_of_measuring_is_that_of_checking_sampling_and_batches(tmp_path):
    rows = [phase("start", 50, 0), phase("checking", 10, 5), phase("sampling", 80, 70)]
    rows += [phase("batches", 10, 5), phase("neighbours", 9, 0), phase("total", 159, 80)]
    rows += [phase("sampling", 999, 1, gpu=None, device="cpu")]
    _, text = said(card(tmp_path, phases=rows), "busy")
    assert (
        text == "Checking and timing took 100.0 s, of which 20 % were neither copies nor kernels."
    )
    host = tables(
        tmp_path,
        recordings=[recording("host", gpu=False)],
        phases=[phase("sampling", 10, 7.5, recording="host", gpu=None, device="cpu")],
    )
    assert said(host, "busy", "host")[1].endswith("of which 25 % were no products.")
    assert said(card(tmp_path), "busy")[0] == "not measured"


def test_short_kernels_are_compared_one_at_a_time_and_back_to_back(tmp_path):
    rows = [
        {
            **{key: value for key, value in CELL_ROW.items() if key != "host_memory"},
            "variant": "block",
            **square(n),
            "block_size": 8,
            "kernel_s": 1e-5 * ratio,
            "kernel_batch_s": 1e-5,
            **interval("ratio", ratio, 0.1),
        }
        for n, ratio in ((256, 1.5), (512, 1.1), (1024, 1.2))
    ]
    _, text = said(card(tmp_path, batches=rows), "batches")
    assert text.startswith("3 kernels are short")
    assert "1.20 × in the median, and 1.50 × (1.35 to 1.65) at most" in text
    assert "(most: block (B = 8), N = 256, 15.0 µs for 10.0 µs)" in text
    assert said(card(tmp_path), "batches") is None


def test_cold_start_is_given_in_its_parts_beside_the_sources(tmp_path):
    parts = {"init": 0.05, "context": 0.1, "module": 0.002, "allocation": 0.001}
    row = CELL_ROW | square(256) | {"variant": "block", "block_size": 8, "host_memory": "pageable"}
    row |= {f"{name}_s": value for name, value in parts.items()}
    row |= {**interval("total_s", 0.16, 0.1), **interval("ratio", 200.0, 0.1)}
    _, text = said(card(tmp_path, cold_starts=[row]), "cold")
    assert "a fresh process takes 160.0 ms (144.0 to 176.0), 200 × (180 to 220) as long" in text
    assert "50.00 ms to start the driver, 100.0 ms for the context" in text
    table5 = pd.read_csv(tmp_path / "table5.csv")
    printed = table5.filter(regex="_time_s$").min(axis=None)
    assert text.endswith(f"no time is below {1000 * printed:.0f} ms.")
    assert said(card(tmp_path), "cold") is None


def beside(quantity, memory, ratio, verdict, n=1024):
    return CELL_ROW | {
        "variant": "block",
        **square(n),
        "block_size": 8,
        "host_memory": memory,
        "neighbours": 3,
        "quantity": quantity,
        "verdict": verdict,
        **interval("ratio", ratio, 0.1),
    }


@pytest.mark.parametrize(
    ("there", "back", "word", "words"),
    [
        ("same", "same", "same", "(3) does not slow copies at N = 1024"),
        ("same", "slower", "slower", "(3) slows some copies at N = 1024"),
        ("slower", "slower", "slower", "(3) slows copies at N = 1024"),
        ("undecided", "same", "undecided", "(3) may or may not slow copies at N = 1024"),
        ("faster", "same", "faster", "(3) does not slow copies at N = 1024"),
    ],
)
def test_neighbours_are_answered_for_each_memory_at_the_largest_order(
    tmp_path, there, back, word, words
):
    rows = [beside("h2d", "pinned", 1.01, "same"), beside("d2h", "pinned", 1.01, "same")]
    rows += [beside("h2d", "pageable", 1.5, there), beside("d2h", "pageable", 1.4, back)]
    rows += [beside("h2d", "pageable", 9.0, "slower", n=256)]
    rows += [beside("kernel", "pageable", 7, "slower")]
    results = card(tmp_path, neighbours=rows)
    found, text = said(results, "neighbours_pageable")
    assert found == word
    assert text.startswith("With pageable host memory the traffic of the host's other GPUs ")
    assert words in text
    copy = ": the copy to the card takes 1.50 × (1.35 to 1.65)"
    assert f"{copy} of the time alone ({there}), that back 1.40 ×" in text
    assert "9.00" not in text
    found, text = said(results, "neighbours_pinned")
    assert found == "same"
    assert "does not slow copies at N = 1024" in text
    assert said(card(tmp_path), "neighbours_pinned") is None


def test_agreement_is_said_of_every_pair(tmp_path):
    row = {"recording_a": "a", "gpu_a": "a", "recording_b": "b", "gpu_b": "b", "tolerance": 0.02}
    rows = [
        row
        | {"kind": kind, "quantity": quantity, "cells": 10, "cells_agreeing": k, "share": k / 10}
        for kind, quantity, k in (("GPU, pinned", "total", 9), ("CPU", "total", 1))
    ]
    rows[1] |= {"gpu_a": None, "gpu_b": None}
    rows.append(rows[0] | {"gpu_b": "c", "recording_b": "c"})
    (pair, sentence), (other, _) = agreement_sentences(tables(tmp_path, agreement=rows))
    assert (pair, other) == ("a and b", "a and c")
    text = str(sentence).replace("\u00a0", " ")
    assert text == (
        "Within 2 % of each other are the medians of 9 of 10 total times (GPU, pinned; 90 %), "
        "1 of 10 total times (CPU; 10 %)."
    )
    assert agreement_sentences(tables(tmp_path)) == []


# ---- tables


def column(table: Table, heading: str) -> list[str]:
    place = [c.heading for c in table.columns].index(heading)
    return ["".join(map(str, row.cells[place].parts)) for row in table.rows]


def test_ceilings_have_a_column_a_card_and_the_rate_of_the_largest_copy(tmp_path):
    rows = [ceiling("h2d_bytes_per_s", 1e9 * r, host_memory="pinned", size_bytes=s)
            for r, s in ((50.0, 2**26), (55.0, 2**12))]  # fmt: skip
    rows += [ceiling("l2_latency_s", 1.4e-7), ceiling("l2_latency_cycles", 260.0)]
    rows += [ceiling("empty_total_s", 8e-8, gpu=None, device="cpu")]
    known = [recording("card"), recording("other")]
    results = tables(tmp_path, recordings=known, ceilings=[trimmed(row) for row in rows])
    from analysis.results import subjects

    table = trust_views.ceilings_table(results, subjects(results), "x")
    found = dict(zip(column(table, "what"), column(table, "card"), strict=True))
    assert {key: value.replace("\u00a0", " ") for key, value in found.items()} == {
        "copy to the card, pinned": "50.0 GB/s",
        "latency, second-level cache": "140 ns, 260 cycles",
        "CPU: sample without a product": "80.0 ns",
    }
    assert set(column(table, "other")) == {"–"}
    assert results.frame("ceilings")["value"].dtype == float


def test_long_lists_are_cut_and_say_so(tmp_path):
    rows = [state(n, 10, 2, 1.0, 1 - n / 1000) for n in range(1, 61)] + [state(99, 10, 0)]
    table = trust_views.telemetry_table(card(tmp_path, telemetry=rows), "x")
    assert len(table.rows) == trust_views.LONGEST_LIST == 40
    caption = "".join(map(str, table.caption))
    assert caption.endswith(": 40 of 60; the CSV file has them all.")
    assert column(table, "shape")[:2] == ["60", "59"], "those that move most"
    few = trust_views.telemetry_table(card(tmp_path, telemetry=rows[:3]), "x")
    assert "of" not in str(few.caption[-1]).split(":")[-1].split()[:2]
    assert len(few.rows) == 3


def test_cells_that_agree_least_come_first(tmp_path):
    row = {"recording_a": "a", "recording_b": "b", "kind": "CPU", "quantity": "total"}
    rows = [
        row | square(n) | {"variant": "naive", "median_a_s": 1.0, "median_b_s": r, "ratio": r}
        for n, r in ((1, 1.1), (2, 0.5), (3, 1.6))
    ]
    table = trust_views.apart_table(tables(tmp_path, agreement_cells=rows), "x")
    assert column(table, "shape") == ["2", "3", "1"]


# ---- figures


def panels(figure):
    return {axis.get_title(): axis for axis in figure.axes}


def test_bandwidth_has_a_panel_a_card_and_four_lines():
    rows = pd.DataFrame(
        [
            {"gpu": gpu, "quantity": f"{way}_bytes_per_s", "host_memory": memory}
            | {"size_bytes": size, "value": 1e9, "value_low": 9e8, "value_high": 2e9}
            for gpu in ("one", "two", "three")
            for way in ("h2d", "d2h")
            for memory in ("pinned", "pageable")
            for size in (2**20, 2**12)
        ]
    )
    found = panels(plots.link_bandwidth(rows))
    assert list(found) == ["one", "two", "three"]
    for axis in found.values():
        assert len(axis.lines) == len(axis.collections) == 4
        assert {line.get_label() for line in axis.lines} == {
            *("pinned, to the card", "pinned, back", "pageable, to the card", "pageable, back")
        }
        assert axis.lines[0].get_xdata().tolist() == [2**12, 2**20]
        assert axis.lines[0].get_ydata().tolist() == [1, 1]
        shade = axis.collections[0].get_paths()[0].vertices[:, 1]
        assert (shade.min(), shade.max()) == (0.9, 2.0)
        assert (axis.get_xscale(), axis.get_yscale()) == ("log", "log")


def test_launches_have_a_panel_a_card_and_a_line_at_one():
    rows = pd.DataFrame(
        [
            {"gpu": gpu, "variant": "block", "kernel_batch_s": s, "ratio": 1.5}
            | {"ratio_low": 1.4, "ratio_high": np.nan if gpu == "two" else 1.6}
            for gpu in ("one", "two")
            for s in (2e-6, 1e-3)
        ]
    )
    found = panels(plots.launch_overhead(rows))
    assert list(found) == ["one", "two"]
    filled, hollow = (axis.collections[1:] for axis in found.values())
    assert filled[0].get_offsets().tolist() == [[pytest.approx(2), 1.5], [1000, 1.5]]
    assert len(hollow[0].get_offsets()) == 0
    assert found["one"].lines[0].get_ydata() == [1, 1]


def test_figures_say_what_is_simulated_and_name_their_axes(base):
    index = {e["name"]: e for e in json.loads((base / "figures" / "figures.json").read_text())}
    for name, unit in (("links", "GB/s"), ("launches", "µs")):
        assert "SIMULATED Simulated GPU (two-gpu0)" in index[name]["caption"]
        root = ET.parse(base / "figures" / f"{name}.svg").getroot()
        words = " | ".join(e.text or "" for e in root.iter("{http://www.w3.org/2000/svg}text"))
        assert unit in words
        assert "logarithmic" in words
        assert "SIMULATED" in words


@pytest.mark.parametrize(
    ("size", "text"),
    [(256, "256 B"), (4096, "4 KiB"), (2**26, "64 MiB"), (2**30, "1 GiB"), (2**41, "2048 GiB")],
)
def test_sizes_are_told_in_powers_of_1024(size, text):
    assert style.binary_size(size) == text


# ---- cells that are not planned


def test_cells_that_were_not_planned_are_blank_and_no_sentence_names_them(make_recording, tmp_path):
    """The smallest blocks are slow: a study leaves them out at large orders."""
    made = make_recording(tmp_path / "card", sizes=(256, 512, 1024), holdout=())

    def planned(frame):
        limits = {1: 256, 2: 512}
        largest = frame["block_size"].map(limits).fillna(10**6).astype(float)
        return frame[(frame["device"] == "cpu") | (frame["n"].astype(float) <= largest)]

    few = {name: planned(getattr(made, name)) for name in ("samples", "checks", "batches")}
    made = rewritten(made, **few)
    page = report(tmp_path, {"card": made.path})
    table5 = Results(tmp_path / "tables").frame("table5")
    own = table5[table5["source"] == "card"].set_index("n")
    for n, blank in ((256, []), (512, ["block_1"]), (1024, ["block_1", "block_2"])):
        for name in (f"block_{b}" for b in (1, 2, 4, 8)):
            assert math.isnan(own.at[n, f"{name}_time_s"]) == (name in blank), (n, name)
    rows = re.search(r'id="table-5-card".*?</figure>', page, re.DOTALL).group()
    measured = [r for r in re.findall(r"<tr(?! class=).*?</tr>", rows, re.DOTALL) if "card" in r]
    dashes = [row.count("<td>–") for row in measured]
    assert dashes == [0, 2, 4], "time and gain of each"
    for sentence in re.findall(r"<dd>.*?</dd>", page, re.DOTALL):
        named = re.sub(r"<[^>]*>", "", sentence).replace("\u00a0", " ")
        assert not re.search(r"B = [12]\), N = 1024|N = 1024, B = [12]\b", named)


def test_chain_writes_the_same_tables_whatever_the_order_of_recordings_rows(
    make_recording, tmp_path
):
    made = make_recording(tmp_path / "two", gpus=2, sizes=(256,), holdout=(), samples=6)
    shuffled = {
        name: getattr(made, name).sample(frac=1, random_state=3)
        for name in ("samples", "batches", "cold_starts", "ceilings", "neighbours")
    }
    other = rewritten(made, tmp_path / "other", **shuffled)
    assert set(other.samples[CELL[0]]) == {"cpu", "gpu0", "gpu1"}
    folders = [chain({"two": r.path}, tmp_path / name) for r, name in ((made, "x"), (other, "y"))]
    for path in folders[0].iterdir():
        assert path.read_bytes() == (folders[1] / path.name).read_bytes(), path.name


def test_replaced_frames_are_those_of_the_new_recording(make_recording, tmp_path):
    made = make_recording(tmp_path / "card", sizes=(256,), holdout=(), samples=6)
    again = rewritten(replace(made, provenance=made.provenance | {"seed": 9}), tmp_path / "b")
    assert again.provenance["seed"] == 9
    pd.testing.assert_frame_equal(again.samples, made.samples)
