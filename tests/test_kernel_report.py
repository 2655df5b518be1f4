"""Systems, steps, machine code, ceilings, claims and shapes as the page shows them."""

import json
import re
import xml.etree.ElementTree as ET

import pandas as pd
import pytest
from analysis.code_views import BOUND_NAMES
from analysis.kernel_findings import claim_sentences, kernel_findings
from analysis.results import MILLISECONDS, TIMES, Results
from report_data import (
    SYSTEMS,
    Page,
    chain,
    recording,
    report,
    tables,
    traced_tables,
)

from analysis import kernel_plots, style
from analysis.kernels.roofline import BOUNDS
from analysis.published.systems import read
from cpu_reference.catalog import VARIANTS as CPU_VARIANTS
from kernels.catalog import VARIANTS
from kernels.counts import table
from kernels.shape import Shape

NEW = {"machine_code", "ladder", "roofline", "claims", "limits", "systems"}
COUNTED = [
    *(("naive", 32), ("naive_coalesced", 32), ("block", 32), ("block_unroll4", 32)),
    *(("register_tile", None), ("tile_conflict_free", 16), ("tile_conflict_free", 32)),
]


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    files = []
    for name, block in COUNTED:
        file = tmp_path_factory.mktemp("counts") / f"{name}.csv"
        file.write_text(table(name, "float32", block, [], [Shape.square(2048)]))
        files.append(file)
    return files


@pytest.fixture(scope="module")
def base(gpu_recording, cpu_recording, counted, tmp_path_factory):
    """The folder of the report on a card and on a host without one."""
    base = tmp_path_factory.mktemp("report")
    recordings = {"card": gpu_recording.path, "host": cpu_recording.path}
    chain(recordings, base / "tables", counted)
    report(base, recordings, base / "tables")
    return base


@pytest.fixture(scope="module")
def text(base):
    return (base / "report.html").read_text()


@pytest.fixture(scope="module")
def results(base):
    return Results(base / "tables")


def section(text, name):
    """Return a section of the page up to the next one of its level."""
    return re.search(rf'<section id="{name}".*?\n</section>\n\n', text, re.DOTALL).group()


def rows_of(text, anchor):
    found = re.search(rf'<figure class="table" id="{anchor}">.*?</figure>', text, re.DOTALL)
    body = found.group().split("<tbody>")[1]
    return re.findall(r"<tr.*?</tr>", body, re.DOTALL)


def plain(parts):
    return str(parts).replace("\u00a0", " ").replace("\u202f", " ")


def test_every_number_is_traced_and_shown_in_its_unit(text, results):
    page = Page(text)
    assert traced_tables(page, results) >= NEW
    ids = page.attributes("id")
    assert len(ids) == len(set(ids))


def test_every_system_of_the_sources_stands_in_the_page(text):
    rows = rows_of(text, "table-systems")
    assert len(rows) == len(read(SYSTEMS))
    for system, row in zip(read(SYSTEMS), rows, strict=True):
        cells = re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)
        assert cells[:2] == [system.source, system.system]
        assert cells[2] == f"<code>{system.variant}</code>"
        assert "kernels/" in cells[3] or "cpu_reference/" in cells[3] or "BLAS" in cells[3]
        assert re.match(r"<data value=", cells[4]), "its rate on the card"
        assert ("not measured" in cells[5]) == (system.side == "gpu"), "the host has no card"
    failed = next(row for row in rows if ">block_strided<" in row)
    assert "some failed" in failed
    assert "passed where it runs" in next(row for row in rows if ">buffered_row<" in row)


def test_a_variant_of_the_report_is_drawn_in_colours_of_its_own():
    known = set(style.SOURCE_V) | set(style.STEPS) | set(style.ANY_SHAPE) | {"block_padded"}
    assert known == set(VARIANTS)
    looks = style.looks([])
    assert {name for is_cpu, name in looks if is_cpu} == set(CPU_VARIANTS)
    assert len({(look.colour, look.marker) for look in looks.values()}) == len(looks)
    beside = ((True, name) for name in style.CPU_BESIDE)
    groups = (
        [*((False, name) for name in style.SOURCE_V), *beside],
        [(True, name) for name in CPU_VARIANTS],
        [(False, name) for name in style.STEPS],
        [(False, name) for name in style.ANY_SHAPE],
    )
    for group in groups:
        assert len({looks[key].colour for key in group}) == len(group)


def shows(row, key):
    """Tell whether a row has a number, rounded as the page rounds it."""
    shown = [float(value) for value in re.findall(r'<data value="([^"]*)"', row)]
    return any(value == pytest.approx(float(key), rel=0.005) for value in shown)


def test_steps_are_listed_with_gain_verdict_and_change(text, results):
    rows = rows_of(text, "table-ladder-card")
    ladder = results.frame("ladder")
    steps = ladder.drop_duplicates(["variant", "dtype"])
    assert len(rows) == len(steps)
    (row,) = (row for row in rows if ">block_unroll4</code>" in row.split("</td>")[0])
    assert row.count("<td>pays</td>") == 2
    assert "registers a thread 38 → 40; occupancy 50 → 75 %" in row
    assert "<td>2048</td>" in row, "the largest"
    (own,) = ladder.index[
        (ladder["variant"] == "block_unroll4")
        & (ladder["n"] == 2048)
        & (ladder["quantity"] == "kernel")
        & (ladder["host_memory"] == "pinned")
    ]
    assert shows(row, results.cell("ladder", own, "gain", TIMES).key)


def test_machine_code_stands_beside_the_times_of_its_kernel(text, results):
    (row,) = (
        row
        for row in rows_of(text, "table-machine-code-card")
        if "<code>block_unroll4</code>" in row
    )
    assert "<code>LDS.128</code>" in row
    summary = results.frame("summary")
    cell = (summary["variant"] == "block_unroll4") & (summary["block_size"] == 32)
    cell &= (summary["n"] == 2048) & (summary["host_memory"] == "pinned")
    (place,) = summary.index[cell]
    time = results.cell("summary", place, "kernel_s", MILLISECONDS)
    assert shows(row, time.key)


def test_bounds_have_a_name_for_readers():
    assert BOUND_NAMES.keys() == BOUNDS.keys()


def test_shapes_show_gate_and_rates_and_leave_out_the_orders(text, gpu_recording):
    rows = rows_of(text, "table-shapes-card")
    assert all(">passed<" in row for row in rows)
    checks = gpu_recording.checks[gpu_recording.checks["host_memory"] == "pageable"]
    of_l = checks["variant"].str.match("b?mm_")
    assert len(rows) == (of_l | (checks["n"] == 250)).sum()
    batch = next(row for row in rows if "bmm_tile" in row)
    words = re.sub(r"<[^>]*>", "", batch)
    assert "3×17×33×65" in words
    assert not any("<td>2048</td>" in row for row in rows)


def test_limits_are_of_table_and_driver(text):
    rows = rows_of(text, "table-limits")
    threads = next(row for row in rows if "threads of a multiprocessor" in row)
    assert re.findall(r">(\d+)<", threads) == ["2048", "2048"]


def test_claims_have_their_verdict_and_rule(text, results):
    rows = rows_of(text, "table-claims")
    assert len(rows) == len(results.frame("claims"))
    slow = next(row for row in rows if "slow order" in row)
    assert "<td>holds</td>" in slow
    assert "within a factor of 1.25" in slow
    assert "no interval" not in next(row for row in rows if "1/4 flop" in row), "a count has none"


def test_sentences_follow_the_numbers(results):
    (found,) = kernel_findings(results)
    said = {sentence.topic: plain(sentence) for sentence in found.sentences}
    assert set(said) == {"steps", "library", "balance", "nearest"}
    ladder = results.frame("ladder")
    kernel = ladder[(ladder["quantity"] == "kernel") & (ladder["dtype"] == "float32")]
    kernel = kernel[(kernel["host_memory"] == "pinned") & (kernel["variant"] != "cublas_sgemm")]
    assert said["steps"].startswith(f"Of {kernel['variant'].nunique()} steps, ")
    assert re.search(r"do not pay \(block_strided \(B = 32\) 0\.(50|49)", said["steps"])
    assert (
        "At N = 2048 NVIDIA's library (cublas_sgemm) is faster than the last step, "
        in (said["library"])
    )
    balance = results.frame("roofline")["balance_flop_per_byte"].iloc[0]
    assert f"its balance is {balance:.1f} flop a byte" in said["balance"]
    assert said["balance"].endswith("flop a byte of their sectors: register_tile.")
    assert "Nearest to its bound comes " in said["nearest"]


def test_claims_are_counted_by_verdict(results):
    (sentence,) = claim_sentences(results)
    verdicts = results.frame("claims")["verdict"].value_counts()
    text = plain(sentence)
    assert text.startswith(f"Of {verdicts.sum()} checks of claims {verdicts['holds']} found")
    assert f"{verdicts['does not hold']} that it does not" in text


def test_what_was_not_measured_is_said(tmp_path):
    results = tables(tmp_path, recordings=[recording("card")])
    (found,) = kernel_findings(results)
    assert {(s.topic, s.verdict) for s in found.sentences} == {
        ("steps", "not measured"),
        ("balance", "not measured"),
    }


def test_every_card_has_figures_of_its_steps_ceilings_and_shapes(base, text):
    index = json.loads((base / "figures" / "figures.json").read_text())
    kinds = [entry["kind"] for entry in index if entry["source"] == "card"]
    assert {"steps", "steps-size", "roofline", "shapes"} < set(kinds)
    part = section(text, "kernels")
    for kind in ("steps", "steps-size", "roofline", "shapes"):
        assert f'id="figure-{kind}-card"' in part
    steps = ET.parse(base / "figures" / "steps-card.svg")
    words = [e.text for e in steps.iter("{http://www.w3.org/2000/svg}text")]
    names = [word for word in words if word in style.STEPS]
    assert names == list(style.STEPS)
    assert any(word.startswith("× 2.7") and word.endswith(", pays") for word in words if word)
    assert any("does not pay" in word for word in words if word)


def test_lines_are_drawn_of_few_variants_at_a_time(base, results):
    cells = results.frame("summary")
    cells = cells[(cells["n"] == 2048) & (cells["host_memory"] == "pageable")]
    fastest = cells.loc[cells["total_s"].idxmin(), "variant"]
    for name, absent in (("rate-size-card", "outer_product"), ("steps-size-card", "block")):
        root = ET.parse(base / "figures" / f"{name}.svg")
        words = {e.text for e in root.iter("{http://www.w3.org/2000/svg}text")}
        assert absent not in words, name
        others = words & set(style.STEPS[1:])
        assert fastest in others
        assert len(others) == (1 if name == "rate-size-card" else len(style.STEPS) - 1)


def test_the_roof_is_the_least_of_bandwidth_and_arithmetic():
    rows = pd.DataFrame(
        [{"variant": "block", "flop_per_byte_of_sectors": 4.0, "rate": 100.0}]
    ).assign(rate_low=90.0, rate_high=110.0)
    ceilings = {"fp32_flop_per_s": 1e12, "device_copy_bytes_per_s": 1e11}
    (axis,) = kernel_plots.roofline(rows, ceilings).axes
    lines = {line.get_label(): line.get_data() for line in axis.lines}
    intensity, rate = lines["device memory"]
    assert rate == pytest.approx([min(100 * x, 1000) for x in intensity])
    assert "first-level cache" not in lines, "it was not measured"
    assert max(intensity) > 10 > 4 > min(intensity)
