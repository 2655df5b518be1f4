"""The CPU as the page shows it: sentences that follow the numbers, tables, figures."""

import html
import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from conftest import ALL_THREADS
from report_data import (
    Page,
    chain,
    cpu_cell,
    gpu_cell,
    interval,
    recording,
    report,
    rewritten,
    tables,
    traced_tables,
)

from analysis import cpu_plots, plots, style
from analysis.cpu.roofline import AT_MOST, BY_FORMULA
from analysis.cpu_findings import host_findings
from analysis.cpu_gain_findings import gain_findings, published_split
from analysis.cpu_views import speedup_tables
from analysis.findings import findings
from analysis.results import Results, hosts_of, subjects
from cpu_reference.catalog import VARIANTS

SVG = "{http://www.w3.org/2000/svg}"
NEW = {"cpu_hosts", "cpu_clock", "cpu_ladder", "cpu_roofline", "cpu_split", "gains"}


@pytest.fixture(scope="module")
def base(gpu_recording, cpu_recording, tmp_path_factory):
    """The folder of the report on a card and on a host without one."""
    base = tmp_path_factory.mktemp("report")
    recordings = {"card": gpu_recording.path, "other": cpu_recording.path}
    report(base, recordings)
    return base


@pytest.fixture(scope="module")
def text(base):
    return (base / "report.html").read_text()


@pytest.fixture(scope="module")
def results(base):
    return Results(base / "tables")


def section(text):
    return re.search(r'<section id="cpu" .*?\n</section>\n\n', text, re.DOTALL).group()


def rows_of(text, anchor):
    found = re.search(rf'<figure class="table" id="{anchor}">.*?</figure>', text, re.DOTALL)
    return re.findall(r"<tr.*?</tr>", found.group().split("<tbody>")[1], re.DOTALL)


def plain(sentence):
    return str(sentence).replace("\u00a0", " ").replace("\u202f", " ")


def said(found, label="card"):
    (own,) = (f for f in found if f.subject.label == label)
    return {s.topic: plain(s) for s in own.sentences}


def of_hosts(results, label="card"):
    return said(host_findings(results, list(hosts_of(subjects(results)).values())), label)


def results_of(made, folder, name="card"):
    """The tables of one recording."""
    return Results(chain({name: made.path}, folder))


# ---- the page


def test_every_number_is_traced_and_shown_in_its_unit(text, results):
    page = Page(text)
    assert traced_tables(page, results) >= NEW
    ids = page.attributes("id")
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in page.attributes("href") if link[:1] == "#"} <= set(ids)


def test_the_section_names_its_warning_and_has_every_host_and_card(text):
    part = section(text)
    assert "Debunking the 100X GPU vs. CPU myth" in part
    for name in ("cpu-gains-card", "cpu-card", "cpu-other"):
        assert f'<section id="{name}"' in part
    assert 'id="cpu-gains-other"' not in part
    for kind in ("cpu", "cpu-blocks", "cpu-roofline"):
        assert f'id="figure-{kind}-card"' in part
        assert f'id="figure-{kind}-other"' in part
    assert 'id="figure-cpu-split"' in part


def test_every_variant_stands_against_four_yardsticks(text, results):
    rows = rows_of(text, "table-speedups-card-1024")
    gains = results.frame("gains")
    own = gains[gains["n"] == 1024]
    assert len(rows) == len(own.drop_duplicates(["variant", "host_memory"]))
    (row,) = (r for r in rows if ">register_tile<" in r and ">pinned<" in r)
    (place,) = own.index[(own["variant"] == "register_tile") & (own["host_memory"] == "pinned")]
    shown = [float(value) for value in re.findall(r'<data value="([^"]*)"', row)][1:]
    names = ("naive", "own", "blas", "blas_all")
    expected = [gains.at[place, f"cpu_{name}_gain"] for name in names]
    assert shown == pytest.approx(expected, rel=0.005), "as rounded for the page"
    caption = re.search(r'id="table-speedups-card-1024">\n<figcaption>(.*?)</fig', text, re.DOTALL)
    words = html.unescape(re.sub(r"<[^>]*>", "", caption.group(1))).replace("\u00a0", " ")
    assert "this study's best C there is packed; all threads: 4 threads" in words


def test_speedups_stand_at_the_sources_order_and_at_the_largest(tmp_path):
    orders = (512, 2048, 4096)
    gain = {"cpu_best_gain": 2.0, "cpu_blas_all_gain": 2.0}
    found = tables(
        tmp_path,
        recordings=[recording("card")],
        summary=[gpu_cell("card", "block", n, 0.01) for n in orders],
        gains=[
            {"source": "card", "n": n, "variant": "block", "block_size": 32}
            | {"host_memory": "pageable"}
            | gain
            for n in orders
        ],
    )
    (card,) = subjects(found)
    assert [n for n, _ in speedup_tables(found, card, "speedups")] == [2048, 4096]
    assert all(len(table.rows) == 1 for _, table in speedup_tables(found, card, "speedups"))


def test_hosts_tell_their_caches_clock_and_blas(text):
    rows = rows_of(text, "table-cpu-machines")
    words = {
        cells[0]: cells[1:]
        for cells in (
            [
                re.sub(r"<[^>]*>", "", cell).replace("\u00a0", " ")
                for cell in re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)
            ]
            for row in rows
        )
    }
    assert words["threads at once"] == ["4", "4"]
    assert words["L1 for data"] == ["32 KiB, CPUs: 1"] * 2
    assert words["L3 for data"] == ["16 MiB, CPUs: 4"] * 2
    assert words["BLAS"] == ["openblas 0.3.30"] * 2
    assert re.fullmatch(
        r"3\.\d+ GHz \(2\.\d+ to 3\.\d+\)", words["clock after a pass, one thread"][0]
    )
    assert words["passes whose clock moved, one thread"][0].endswith(", by more than 2.0 %")


def test_ceilings_of_the_cpu_stand_beside_those_of_the_card(text):
    rows = rows_of(text, "table-ceilings")
    words = [re.sub(r"<[^>]*>", " ", row).replace("\u00a0", " ") for row in rows]
    both = [line for line in words if "CPU:" in line]
    assert len(both) == 9
    assert "GFLOP/s" in next(line for line in both if "multiply-adds" in line)
    of_memory = [line for line in both if "memory" in line or "the same" in line]
    assert len(of_memory) == 3


# ---- sentences on hosts


def test_a_host_is_told_in_sentences(results):
    text = of_hosts(results)
    assert text["machine"] == (
        "Threads that the process may run at once: 4, on a host of 8 CPUs. For data the "
        "first-level cache holds 32 KiB, the second-level cache holds 1 MiB, the third-level cache "
        "holds 16 MiB. Its BLAS is openblas 0.3.30 with code for SkylakeX."
    )
    assert "it moved by more than 2.0 % in " in text["cpu_clock"]
    rates = re.findall(r"(\w+)(?: \(B = \d+\))? [\d.]+ GFLOP/s", text["cpu_rates"])
    assert rates == ["naive", "column_buffered", "loop_order", "blocked", "packed", "blas"]
    assert (
        "On one thread at N = 1024 the BLAS is faster than packed: a gain of 1.2"
        in text["cpu_library"]
    )
    assert f"; on {ALL_THREADS} threads at N = 1024 the BLAS is faster" in text["cpu_library"]
    assert re.search(r"blas at N = 1024 gains 3\.\d+ × \(.*\) on 4 threads, an eff", text["cores"])
    assert re.search(r"efficiency of (79|80|81) %", text["cores"])
    assert text["cache_gain"].endswith("where the source has 35.0 ×: its claim does not hold.")
    assert "Three blocks fill the first-level cache at B = 52, the second" in text["block_size"]
    assert text["cpu_ceiling"].startswith("On one thread blas reaches 8")
    assert "; on 4 threads blas reaches 7" in text["cpu_ceiling"]


def test_a_host_of_one_core_has_no_all_core_rows(cpu_recording, tmp_path):
    samples = cpu_recording.samples
    one = rewritten(cpu_recording, tmp_path / "one", samples=samples[samples["threads"] == 1])
    text = of_hosts(results_of(one, tmp_path / "a"))
    assert text["cores"] == "Nothing was measured on more than one core."
    host = one.provenance["host"] | {"usable_threads": 1}
    alone = replace(one, provenance=one.provenance | {"host": host})
    results = results_of(rewritten(alone, tmp_path / "alone"), tmp_path / "b")
    assert of_hosts(results)["cores"] == (
        "The process may use one core, so that one thread is all there is."
    )
    assert "threads" not in of_hosts(results)["cpu_library"]


def test_a_recording_without_blas_caches_and_clock_says_so(cpu_recording, tmp_path):
    samples = cpu_recording.samples
    old = samples[~samples["variant"].isin(["blas", "packed"])]
    old = old.assign(cpu_clock_before_hz=pd.NA, cpu_clock_after_hz=pd.NA)
    host = cpu_recording.provenance["host"] | {"caches": []}
    software = cpu_recording.provenance["software"] | {"blas": None}
    told = cpu_recording.provenance | {"host": host, "software": software}
    ceilings = cpu_recording.ceilings
    ceilings = ceilings[ceilings["threads"].isna()]
    made = rewritten(
        replace(cpu_recording, provenance=told), tmp_path / "old", samples=old, ceilings=ceilings
    )
    results = results_of(made, tmp_path / "tables")
    text = of_hosts(results)
    assert (
        "The sizes of its caches were not told. Which BLAS it has was not told."
        in (text["machine"])
    )
    assert text["cpu_clock"] == "The clock of the CPU during its passes was not measured."
    assert text["cpu_library"] == "No BLAS was measured beside this study's packed product."
    assert text["cpu_ceiling"] == "What the cores could do at most was not measured."
    assert "Three blocks" not in text["block_size"]
    page = report(tmp_path, {"card": made.path}, tmp_path / "tables")
    assert 'id="figure-cpu-roofline-card"' not in page
    assert "The sizes of its caches were not told." in page
    assert Page(page).elements


@pytest.mark.parametrize(
    ("word", "spread", "words"),
    [
        ("holds", 0.1, "its claim holds."),
        ("does not hold", 0.1, "its claim does not hold."),
        ("undecided", 0.1, "that is undecided."),
        ("undecided", None, "without an interval nothing is decided."),
    ],
)
def test_the_thirty_five_times_are_judged_by_the_claims_table(tmp_path, word, spread, words):
    claim = {
        "recording": "host",
        "claim": "cache optimisation makes the CPU's loop 35 times faster",
        "below": "blocked",
        "block_size": 64,
        "n": 2048,
        "expected": 35,
        "verdict": word,
    } | interval("value", 40.0, spread)
    cells = [cpu_cell("host", "naive", 2048, 30.0, spread=None)]
    results = tables(
        tmp_path, recordings=[recording("host", gpu=False)], summary=cells, claims=[claim]
    )
    text = of_hosts(results, "host")["cache_gain"]
    assert text == (
        "Cache optimisation as the source did it (blocked (B = 64)) gains 40.0 × "
        f"({'36.0 to 44.0' if spread else 'no interval'}) over the naive loop at N = 2048, where "
        f"the source has 35.0 ×: {words}"
    )


def test_a_cpu_that_was_not_measured_has_no_findings(tmp_path):
    results = tables(tmp_path, recordings=[recording("card")])
    assert host_findings(results, subjects(results)) == []


# ---- sentences on GPUs


def test_a_card_is_held_against_every_yardstick(results):
    text = said(gain_findings(results))["yardsticks"]
    frame = results.frame("gains")
    own = frame[(frame["n"] == 1024) & (frame["host_memory"] == "pageable")]
    own = own[own["variant"] != "cublas_sgemm"]
    best = own.loc[own["cpu_best_gain"].idxmax()]
    assert text.startswith(f"{best['variant']} at N = 1024, copies from and to pageable memory")
    for name in (
        "over the naive loop on one thread, the yardstick of the source",
        "over this study's best C on one thread",
        "over BLAS on one thread",
        "over BLAS on all threads",
    ):
        assert name in text
    assert f"{best['cpu_blas_all_gain']:.2f} ×" in text
    assert "Not measured" not in text


def test_yardsticks_that_are_missing_are_named(tmp_path):
    gain = {"cpu_naive_gain": 2000.0, "cpu_own_gain": 10.0, "cpu_best_gain": 10.0}
    row = {"source": "card", "n": 512, "variant": "block", "block_size": 32} | gain
    row |= {"host_memory": "pageable"}
    results = tables(
        tmp_path,
        recordings=[recording("card")],
        summary=[gpu_cell("card", "block", 512, 0.01)],
        gains=[row],
    )
    text = said(gain_findings(results))["yardsticks"]
    assert text.endswith("Not measured: BLAS on one thread; BLAS on all threads.")
    (found,) = findings(results)
    (over,) = (s for s in found.sentences if s.topic == "cpu")
    assert plain(over).endswith("What a BLAS on all its cores would do was not measured.")


def test_a_gain_is_split_into_factors_and_shares(results):
    (card,) = gain_findings(results)
    over_naive = [plain(s) for s in card.sentences if s.topic == "split_naive"]
    for memory, text in zip(("pageable", "pinned"), over_naive, strict=True):
        assert re.fullmatch(
            rf"At N = 1024 \w+ with its copies from and to {memory} memory gains \d+ × \(.*?\) "
            r"over the naive loop: 10\.\d × \(.*?\) by cache optimisation as the source did it, "
            r"then [\d.]+ × \(.*?\) by vectors, registers, packing, then 3\.\d\d × \(.*?\) by all "
            r"cores, then [\d.]+ × \(.*?\) by the GPU with its copies\. Of its logarithm the GPU "
            r"has \d\d %, the code that the CPU runs \d\d %, its other cores 1\d %\.",
            text,
        ), text
    (better,) = (plain(s) for s in card.sentences if s.topic == "split_source")
    assert "over a CPU program optimised for its cache as the source's was" in better
    assert "pageable" in better


def test_the_published_gain_is_told_without_intervals(results):
    texts = {s.topic: plain(s) for s in published_split(results)}
    assert texts["split_naive"] == (
        "At N = 2048 block_unroll4 (B = 32) with its copies gains 1776 × over the naive loop: "
        "35.0 × by cache optimisation as the source did it, then 50.7 × by the GPU with its "
        "copies. Of its logarithm the GPU has 52 %, the code that the CPU runs 48 %."
    )


def test_a_card_without_cpu_says_so(tmp_path):
    results = tables(
        tmp_path,
        recordings=[recording("card")],
        summary=[gpu_cell("card", "block", 512, 0.01)],
    )
    text = said(gain_findings(results))
    assert text["yardsticks"] == "A gain over the CPU was not measured."
    assert "was not measured" in text["split_naive"]


def test_the_headline_opponent_is_the_whole_cpu(results):
    (card, _) = findings(results)
    texts = {s.topic: plain(s) for s in card.sentences}
    assert "the best CPU version here (blas, on 4 threads): gain " in texts["cpu"]
    assert "; over the naive CPU loop, the yardstick of the source, " in texts["cpu"]
    assert "was not measured" not in texts["cpu"]
    assert texts["host"].startswith(
        "Its CPU (Simulated CPU) is fastest at N = 1024 with blas, on 4 threads: "
    )
    assert "; on one thread with blas: " in texts["host"]


def test_naive_is_given_at_its_own_largest_order(tmp_path):
    cells = [gpu_cell("card", "block", n, 0.01) for n in (2048, 4096)]
    row = {"source": "card", "variant": "block", "block_size": 32, "host_memory": "pageable"}
    row |= {"cpu_best_variant": "blas", "cpu_best_threads": 16, "cpu_best_gain": 3.0}
    results = tables(
        tmp_path,
        recordings=[recording("card")],
        summary=cells,
        gains=[row | {"n": 2048, "cpu_naive_gain": 9000.0}, row | {"n": 4096}],
    )
    (found,) = findings(results)
    (over,) = (s for s in found.sentences if s.topic == "cpu")
    assert plain(over).startswith("At N = 4096, the largest order that its CPU multiplied too")
    assert "yardstick of the source, at N = 2048 9000 × (no interval)" in plain(over)


# ---- figures


def words_of(base, name):
    root = ET.parse(base / "figures" / f"{name}.svg").getroot()
    return [element.text or "" for element in root.iter(f"{SVG}text")]


def test_rates_are_drawn_by_threads_below_the_multiply_adds(base):
    words = words_of(base, "cpu-card")
    assert {"one thread", "4 threads", *VARIANTS} <= set(words)
    assert words.count("multiply-adds") == 2


def test_the_sweep_shows_where_blocks_fill_the_caches(base):
    words = words_of(base, "cpu-blocks-card")
    assert "L1, 32 KiB" in words
    assert {"N = 256", "N = 1024"} <= set(words)
    index = json.loads((base / "figures" / "figures.json").read_text())
    (caption,) = (e["caption"] for e in index if e["name"] == "cpu-blocks-card")
    assert "32 KiB of L1 at B = 52, 1 MiB of L2 at B = 296, 16 MiB of L3 at B = 1182" in caption
    three, single = cpu_plots.edges(48 << 10)
    assert (three, single) == (64, pytest.approx(64 * 3**0.5))


def test_bands_lie_where_three_blocks_to_one_fill_a_cache():
    cells = pd.DataFrame(
        {"block_size": [8, 512], "n": 2048, "batch": 1, "m": 2048, "k": 2048, "total_s": [2.0, 1.0]}
    ).assign(total_low_s=0.9, total_high_s=2.1)
    (axis,) = cpu_plots.blocks(cells, [(1, 48 << 10), (3, 1 << 30)]).axes
    dashed = [line.get_xdata()[0] for line in axis.lines if line.get_linestyle() == "--"]
    assert dashed == [64], "the third level is full beyond the figure"
    (band,) = axis.patches
    ends = band.get_extents().transformed(axis.transData.inverted())
    assert (ends.x0, ends.x1) == (pytest.approx(64), pytest.approx(64 * 3**0.5))
    assert [text.get_text() for text in axis.texts] == ["L1, 48 KiB"]


def roofline_rows():
    shared = {"rate": 10.0, "rate_low": 9.0, "rate_high": 11.0}
    return pd.DataFrame(
        [
            {"variant": "blocked", "threads": 1, "intensity": BY_FORMULA}
            | {"flop_per_byte_asked": 1 / 6, "flop_per_byte_past_l1": 16.0},
            {"variant": "packed", "threads": 4, "intensity": AT_MOST}
            | {"flop_per_byte_asked": 341.0, "flop_per_byte_past_l1": 341.0},
        ]
    ).assign(**shared)


def test_roofs_are_those_of_each_panel_and_bounds_are_marked():
    ceilings = {
        ("fp32_flop_per_s", 1): 1e11,
        ("fp32_flop_per_s", 4): 4e11,
        ("l1_bytes_per_s", 1): 2e11,
        ("l2_bytes_per_s", 1): 1e11,
        ("memory_bytes_per_s", 1): 1e10,
        ("memory_bytes_per_s", 4): 2e10,
    }
    asked, past = cpu_plots.roofline(roofline_rows(), ceilings).axes
    lines = [{line.get_label(): line for line in axis.lines} for axis in (asked, past)]
    roofs = [{name for name in found if name[0] != "_"} for found in lines]
    points = {"blocked", "packed, 4 threads"}
    assert roofs[0] - points == {"first-level cache"}
    assert roofs[1] - points == {"second-level cache", "memory", "memory, 4 threads"}
    intensity, rate = lines[1]["memory, 4 threads"].get_data()
    assert rate == pytest.approx(np.fmin(20 * intensity, 400))
    for axis in (asked, past):
        arrows = [text for text in axis.texts if text.arrow_patch]
        assert [arrow.xyann for arrow in arrows] == [(341.0, 10.0)], "of packed alone"
        assert arrows[0].xy[0] < 341


def test_a_variant_on_all_threads_keeps_its_colour_and_changes_its_line():
    look = style.looks([(True, "blas")])[True, "blas"]
    assert style.on_threads(look, 1) == look
    several = style.on_threads(look, 16)
    assert (several.colour, several.marker) == (look.colour, look.marker)
    assert several.line != look.line


def test_figures_beside_a_gpu_show_the_naive_loop_and_the_fastest_on_one_thread_and_all(base):
    words = words_of(base, "rate-size-card")
    on_cpu = {word for word in words if word.startswith("CPU")}
    assert on_cpu == {"CPU naive, one thread", "CPU blas, one thread", "CPU blas, 4 threads"}
    words = words_of(base, "figure1-card")
    assert not any(word.startswith("CPU, ") for word in words), "its order was not multiplied"


def test_figure_1_tells_threads_apart():
    cells = pd.DataFrame(
        [
            cpu_cell("card", "blas", 512, 0.01, threads=threads) | {"is_cpu": True}
            for threads in (1, 16)
        ]
    ).assign(host_memory=None, kernel_s=np.nan, kernel_low_s=np.nan, kernel_high_s=np.nan)
    (axis,) = plots.variants_at_size(
        cells, pd.DataFrame(columns=["variant", "is_cpu", "rate"]), 512
    ).axes
    assert axis.get_legend_handles_labels()[1] == ["CPU, one thread", "CPU, 16 threads"]
    assert [label.get_text() for label in axis.get_yticklabels()] == ["CPU blas"]


def part(name, factor, spread=None):
    low, high = (factor * (1 + sign * spread) if spread else np.nan for sign in (-1, 1))
    return {"part": name, "factor": factor, "factor_low": low, "factor_high": high}


def test_parts_of_a_gain_follow_each_other_and_a_loss_leads_back():
    rows = pd.DataFrame([part("source", 35), part("all_threads", 10, 0.1), part("gpu", 0.5, 0.1)])
    (axis,) = cpu_plots.split([(("card", "N = 2048"), rows)]).axes
    bars = [bar for bar in axis.patches if bar.get_width() and bar.get_y() < 0.5][:3]
    ends = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in bars]
    assert ends == [(1, 35), (35, 350), (175, 350)]
    assert bars[2].get_height() < bars[1].get_height()
    texts = [text.get_text() for text in axis.texts]
    assert texts == ["× 35", "× 10", "× 0.5", "× 175"]
    segments = [c.get_segments()[0][:, 0].tolist() for c in axis.collections]
    assert segments == [
        [pytest.approx(315), pytest.approx(385)],
        [pytest.approx(350 * 0.45), pytest.approx(350 * 0.55)],
    ]


def test_the_split_of_all_cards_has_the_published_one_beside_them(base):
    words = words_of(base, "cpu-split")
    assert "published" in words
    assert any(word.startswith("SIMULATED Simulated GPU") for word in words)
    assert "× 1780" in words
    assert {text for text, _, _ in style.SPLIT.values()} <= set(words)
