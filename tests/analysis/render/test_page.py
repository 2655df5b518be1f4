"""The report: every number is the CSV's, every link has its target, nothing is fetched."""

import base64
import hashlib
import html
import lzma
import re
from itertools import pairwise
from urllib.parse import unquote_to_bytes

import pandas as pd
import pytest
from analysis.check import check
from analysis.report import render
from analysis.results import Results

from tests.support.report_data import (
    MAKER,
    TEMPLATE,
    Page,
    report,
    rewritten,
    traced_tables,
)


@pytest.fixture(scope="module")
def recordings(make_recording, tmp_path_factory):
    """A card that is simulated, a host without GPU that is stale; each with a single sample."""
    base = tmp_path_factory.mktemp("recorded")
    sizes = {"sizes": (256, 1024), "samples": 7}
    card = make_recording(base / "card", holdout=(512,), **sizes)
    changed = card.provenance["sources"] | {"kernels/block.cu": "0" * 64}
    host = make_recording(
        base / "host", gpus=0, holdout=(), simulated=False, sources=changed, **sizes
    )
    for made in (card, host):
        alone = (made.samples["variant"] == "naive") & (made.samples["n"] == 1024)
        alone &= (made.samples["device"] == "cpu") & (made.samples["round"] > 0)
        rewritten(made, samples=made.samples[~alone])
    return {"card": card.path, "host": host.path}


@pytest.fixture(scope="module")
def base(recordings, tmp_path_factory):
    base = tmp_path_factory.mktemp("report")
    report(base, recordings)
    return base


@pytest.fixture(scope="module")
def text(base):
    return (base / "report.html").read_text()


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


# ---- numbers


def test_every_cell_and_every_number_is_its_csv_cell(page, base):
    seen = traced_tables(page, Results(base / "tables"))
    assert seen >= {*(f"table{k}" for k in range(1, 7)), "summary", "gains", "models", "checks"}


def test_units_stand_in_the_headings(text):
    heads = [html.unescape(unit) for unit in re.findall(r'<span class="unit">([^<]*)</span>', text)]
    seconds, rates = {"s", "ms", "µs"}, {"GFLOP/s", "Gop/s", "GB/s"}
    assert set(heads) == seconds | rates | {"MB", "MHz", "×", "%"}


def test_every_published_table_has_a_measured_twin_for_every_card(page, base):
    shown, _ = check(page.html, Results(base / "tables"))
    for k in range(1, 7):
        table = pd.read_csv(base / "tables" / f"table{k}.csv")
        name = f"table{k}"
        own = [each for each in shown if each.table == name]
        anchors = [a for a in page.attributes("id") if a.startswith(f"table-{k}-")]
        assert f"table-{k}-card" in anchors
        assert {"published", "card"} <= set(table["source"])
        assert {each.rows[0] for each in own} == set(table.index), f"a row of {name} is not shown"
        for row in table.index:
            measured = [c for c in table if not pd.isna(table.at[row, c])]
            columns = {each.expression for each in own if each.rows == (row,) and each.text != "–"}
            assert columns == set(measured) - {"machine"}, (name, row)


def test_rows_of_one_order_stand_together_published_first(text):
    table = re.search(r'<figure class="table" id="table-5-card">.*?</figure>', text, re.DOTALL)
    rows = re.findall(r"<tr(.*?)>\n<td>(\d+)</td>", table.group())
    orders = [int(n) for _, n in rows]
    assert orders == sorted(orders)
    twins = [
        ("published" in first, "published" in second)
        for (first, a), (second, b) in pairwise(rows)
        if a == b
    ]
    assert twins
    assert set(twins) == {(True, False)}


def test_cells_without_interval_are_marked(text, base):
    summary = pd.read_csv(base / "tables" / "summary.csv")
    single = summary[(summary["samples"] == 1) & (summary["recording"] == "card")]
    assert len(single) == 1
    table = re.search(r'id="table-cpu-cells-card".*?</figure>', text, re.DOTALL).group()
    row = re.search(rf'<tr data-row="{single.index[0]}">.*?</tr>', table, re.DOTALL)
    assert '<mark class="badge">single sample</mark>' in row.group()
    assert "<small>no interval</small>" in row.group()
    assert table.count("single sample") == 1
    table1 = re.search(r'id="table-1-card".*?</figure>', text, re.DOTALL).group()
    assert table1.count("no interval") == 2, "the CPU's time and the gain at N = 1024"


# ---- links and downloads


def test_every_anchor_has_its_target_and_no_id_is_given_twice(page):
    ids = page.attributes("id")
    assert len(ids) == len(set(ids))
    targets = {link[1:] for link in page.attributes("href") if link.startswith("#")}
    assert len(targets) > 20
    assert targets <= set(ids)
    for name in ("aria-labelledby", "aria-describedby"):
        for value in page.attributes(name):
            assert set(value.split()) <= set(ids)


def test_every_section_figure_and_table_has_an_anchor(page):
    for tag, attributes in page.elements:
        if tag in ("section", "figure"):
            assert attributes.get("id"), (tag, attributes)


def test_every_download_is_the_csv_file_byte_for_byte(page, text, base):
    links = {a["download"]: a["href"] for t, a in page.elements if t == "a" and "download" in a}
    names = [name.removesuffix(".xz") for name in links]
    assert set(names) == {path.name for path in (base / "tables").glob("*.csv")}
    for name, (file, link) in zip(names, links.items(), strict=True):
        kind, data = link.split(",", 1)
        written = (base / "tables" / name).read_bytes()
        if len(written) > 5_000:
            assert (file, kind) == (f"{name}.xz", "data:application/x-xz;base64")
            assert lzma.decompress(base64.b64decode(data)) == written
        else:
            assert (file, kind) == (name, "data:text/csv;charset=utf-8")
            assert unquote_to_bytes(data) == written
    assert any(file.endswith(".xz") for file in links)
    assert any(file.endswith(".csv") for file in links)
    counts = re.findall(r">(\d+)(?:</\w+>)?</td></tr>", text[text.index("table-downloads") :])
    assert [int(n) for n in counts] == [len(pd.read_csv(base / "tables" / name)) for name in names]


def test_every_table_links_to_the_csv_behind_it(text):
    for figure in re.findall(r'<figure class="table".*?</figure>', text, re.DOTALL):
        if 'id="table-downloads"' not in figure:
            assert re.search(r'<a class="source" href="#csv-\w+">CSV</a>', figure), figure[:200]


# ---- one file, offline


def loads(page):
    """Return every address that a browser would fetch for this page."""
    fetching = {"src", "srcset", "poster", "data", "action", "formaction", "background", "manifest"}
    for tag, attributes in page.elements:
        for name, value in attributes.items():
            linked = name in ("href", "xlink:href") and tag in ("link", "use", "image", "base")
            if linked or (name in fetching and tag != "data"):
                yield value
            elif "url(" in value and tag != "a":
                yield from re.findall(r"url\(\s*[\"']?([^\"')]*)", value)


def test_nothing_is_fetched(page, text):
    styles = "".join(re.findall(r"<style>(.*?)</style>", text, re.DOTALL))
    assert "@import" not in styles
    addresses = [*loads(page), *re.findall(r"url\(\s*[\"']?([^\"')]*)", styles)]
    assert addresses
    for address in addresses:
        assert address.startswith(("#", "data:")), address
    links = [a["href"] for t, a in page.elements if t == "a"]
    assert all(link.startswith(("#", "data:text/csv", "data:application/x-xz")) for link in links)


def test_the_browser_is_told_to_fetch_and_run_nothing_else(page):
    (policy,) = (a["content"] for t, a in page.elements if a.get("http-equiv"))
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    hashes = [hashlib.sha256(script.encode()).digest() for script in page.texts["script"]]
    allowed = [f"'sha256-{base64.b64encode(digest).decode()}'" for digest in hashes]
    assert rules["script-src"].split() == allowed
    assert not any(name.startswith("on") for _, a in page.elements for name in a)


def test_vendored_files_are_those_of_their_packages_with_their_licences(text):
    vendor = TEMPLATE / "vendor"
    for licence in ("pico.LICENSE.md", "sortable.LICENSE"):
        assert (vendor / licence).stat().st_size > 1000
    for name in ("pico.fluid.classless.min.css", "sortable.min.js", "sortable.a11y.min.js"):
        assert (vendor / name).read_text() in text
        assert f"`{name}`" in (vendor / "README.md").read_text()


def test_the_page_is_small_enough(base):
    assert (base / "report.html").stat().st_size < 3_000_000


def test_the_same_input_gives_the_same_bytes(base, recordings, text):
    out = base / "again.html"
    render(base / "tables", base / "figures", recordings, TEMPLATE, out, MAKER)
    assert out.read_text() == text


# ---- what was measured, and how well


def test_stale_recordings_are_marked_with_the_sources_that_changed(text):
    assert "stale</mark>" not in found_section(text, "card")
    host = found_section(text, "host")
    assert '<mark class="badge stale">stale</mark>' in host
    notice = re.search(r'<p role="note" class="notice">Stale:.*?</p>', host, re.DOTALL).group()
    assert "<code>kernels/block.cu</code> changed" in notice
    assert notice.count("<code>") == 1
    table = re.search(r'id="table-recordings".*?</figure>', text, re.DOTALL).group()
    rows = re.findall(r"<tr data-row.*?</tr>", table, re.DOTALL)
    assert [">stale</mark>" in row for row in rows] == [False, True]
    assert [bool(re.search(r">no</\w+></td>", row)) for row in rows] == [True, True], "not here"


def found_section(text, label):
    return re.search(
        rf'<section class="answers" id="found-{label}".*?</section>', text, re.DOTALL
    ).group()


def test_simulated_recordings_are_marked_wherever_they_appear(text):
    assert "SIMULATED" in found_section(text, "card")
    assert "SIMULATED</mark> Numbers with this mark were computed, not measured" in text
    assert "SIMULATED" not in found_section(text, "host")
    for figure in re.findall(
        r'<figure class="(?:plot|table)" id="[^"]*card[^"]*">.*?</figure>', text, re.DOTALL
    ):
        if 'id="table-builds-' not in figure:
            assert "SIMULATED" in figure, figure[:100]
    for figure in re.findall(
        r'<figure class="\w+" id="[^"]*host[^"]*">.*?</figure>', text, re.DOTALL
    ):
        assert "SIMULATED" not in figure
    rows = re.findall(r"<tr[^>]*>\n(?:(?!</tr>).)*<code>card</code>.*?</tr>", text, re.DOTALL)
    sources = [row for row in rows if re.search(r"<td>\d+</td>\s*<td><code>card</code>", row)]
    assert sources
    assert all("SIMULATED" in row for row in sources)


def test_cells_that_were_not_timed_are_listed_with_their_reason(text, base):
    checks = pd.read_csv(base / "tables" / "checks.csv")
    bad = checks[checks["status"] != "passed"]
    assert set(bad["status"]) == {"failed"}
    table = re.search(r'id="table-checks".*?</figure>', text, re.DOTALL).group()
    assert table.count("<tr data-row") == len(bad)
    for reason in bad["reason"]:
        assert html.escape(reason) in table


def test_captions_say_card_memory_and_number_of_samples(page, text):
    caption = re.search(
        r'id="table-5-card">\n<figcaption>(.*?)</figcaption>', text, re.DOTALL
    ).group(1)
    plain = re.sub(r"<[^>]*>", "", caption)
    assert "Published: Intel Core i7-4770 + GeForce GTX 770." in plain
    assert "SIMULATED, not measured: Simulated GPU, pageable host memory." in plain
    assert "Medians of 7 to 7 samples a cell" in plain
    first = re.search(r'id="table-1-card">\n<figcaption>(.*?)</figcaption>', text, re.DOTALL).group(
        1
    )
    assert "Medians of 1 to 7 samples a cell" in re.sub(r"<[^>]*>", "", first)


def test_model_gives_rho_and_says_what_gains_determine(text):
    model = text[text.index('<section id="model"') : text.index('<section id="accesses"')]
    assert "Gains determine ρ alone" in model
    assert "<math" in model
    for name in ("published", "card"):
        pattern = rf'id="table-model-parameters-{name}".*?</figure>'
        table = re.search(pattern, model, re.DOTALL).group()
        symbols = re.findall(r"<td>(M\d)</td>\s*<td><code[^>]*>(.*?)</code></td>", table)
        assert symbols[:3] == [("M0", "ρ"), ("M0", "t_G"), ("M0", "t_S")]
        assert symbols[3] == ("M1", "ρ")


def test_environment_and_compile_flags_are_given(text):
    assert "<td>host.cpu_model</td>" in text
    assert "<code>-O3 -std=c++17</code>" in text
