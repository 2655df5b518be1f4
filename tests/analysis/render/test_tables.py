"""Tables in the page: columns of the schema, and the places of cells."""

import re

import pandas as pd
import pytest

from analysis.data.devices import Device
from analysis.render.query import Rows, rows
from analysis.render.tables import MOST_COLUMNS, MOST_ROWS, _is_of
from analysis.schema import US
from tests.support.report_data import EVIL, gpu_cell, in_page, recording, tables

CELLS = [
    gpu_cell("card", "block", 512, 0.0123456),
    gpu_cell("card", "naive", 17000, 0.5, spread=None),
    gpu_cell("other", EVIL, 512, 0.25, block_size=None),
]
MARKED = {"card": "SIMULATED"}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    recordings = [recording("card", simulated=True), recording("other", stale=True)]
    return tables(tmp_path_factory.mktemp("tables"), recordings=recordings, summary=CELLS)


@pytest.fixture(scope="module")
def cells(store):
    return rows(store, "summary")


def body(text):
    """Return the rows of a table as (attributes, cells)."""
    found = re.findall(r"<tr([^>]*)>(.*?)</tr>", text.split("</thead>")[1], re.DOTALL)
    return [(said, re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)) for said, row in found]


def test_the_markup_of_a_table_names_its_rows_columns_title_and_csv(cells):
    text = in_page("table", cells.where(n=512), "gpu variant n block_size total_s±", "Some cells")
    columns = re.findall(r'<th scope="col" data-column="(\w+)"', text)
    assert columns == ["gpu", "variant", "n", "block_size", "total_s"]
    assert '<span class="unit">ms</span>' in text
    assert '<table class="sortable n-last" data-csv="summary">' in text
    assert [said for said, _ in body(text)] == [' data-row="0"', ' data-row="2"']
    known = ["<code>card</code>", "<code>block</code>", "512", "32"]
    assert body(text)[0][1] == [*known, "12.35<small>12.22–12.47</small>"]
    assert body(text)[1][1][3] == "–"
    text = in_page("table", cells, "n", "Some cells", caller=lambda: "What they are.")
    words = '<strong>Some cells.</strong> What they are. <small class="csv">summary.csv</small>'
    assert re.findall(r"<figcaption>(.*?)</figcaption>", text.replace("\n", " ")) == [words]
    assert 'id="table-some-cells"' in text
    assert 'aria-label="Some cells"' in text
    text = in_page("table", cells, "n block_size total_s±", "All")
    assert re.findall(r'<td class="n">([^<]*)', text) == [
        *("512", "32", "12.35", "17\u202f000", "32", "500.0", "512", "–", "250.0"),
    ]
    text = in_page("table", cells.where(n=17000), "n total_s±", "One", units={"total_s": US})
    assert '<span class="unit">µs</span>' in text
    assert body(text)[0][1] == ["17\u202f000", "500\u202f000"], "without interval, none is shown"


def test_tables_escape_names_mark_simulated_gpus_and_show_flags_as_words(cells, store):
    text = in_page("table", cells, "gpu recording variant n", "All", marks=MARKED)
    assert text.count('<code>card</code> <mark class="badge simulated">SIMULATED</mark>') == 4
    assert "<code>other</code> <mark" not in text
    text = in_page("table", cells, "variant", EVIL, caller=None)
    assert "<script>" not in text
    assert "\u202e" not in text
    assert re.search(r'id="table-[a-z0-9-]+"', text)
    text = in_page("table", rows(store, "recordings"), "gpu simulated live stale", "Recordings")
    assert [cells[1:] for _, cells in body(text)] == [["yes", "no", "no"], ["no", "no", "yes"]]


def test_tables_without_rows_and_columns_without_values_are_omitted(cells, store):
    assert in_page("table", rows(store, "speedups"), "source speedup", "None of them") == ""
    assert in_page("pivot", cells.where(n=1), "n", "gpu", "total_s", "None of them") == ""
    text = in_page("table", cells, "variant threads n", "Without threads")
    assert re.findall(r'<th scope="col" data-column="(\w+)"', text) == ["variant", "n"]


def test_a_pivot_has_a_column_per_value_or_if_too_wide_only_the_gpu_in_focus(cells):
    text = in_page("pivot", cells, "n", "gpu", "total_s±", "By card", marks=MARKED)
    heads = [f'{name} <span class="unit">ms</span>' for name in ("SIMULATED card", "other")]
    assert re.findall(r'<th scope="col">(.*?)</th>', text) == ["N", *heads]
    (_, first), (_, second) = body(text)
    data = '<data data-at="summary {} total_s" data-unit="ms">{}</data>'
    known = f"{data.format(0, 12.35)}<small>12.22–12.47</small>"
    assert first == ["512", known, f"{data.format(2, '250.0')}<small>247.5–252.5</small>"]
    assert second == ["17000", data.format(1, "500.0"), "–"]
    longest = many(MOST_ROWS, columns=["source"], value=1.0)
    text = in_page("table", longest, "source value", "Parameters", focus=FOCUS)
    assert text.count("<tr d") == MOST_ROWS
    longer = many(MOST_ROWS + 2, columns=["source"], value=1.0)
    longer.frame.loc[0, "source"] = "published"
    text = in_page("table", longer, "source value", "Parameters", focus=FOCUS)
    assert text.count("<tr d") == text.count("<code>card2</code></td>") + 1 == MOST_ROWS // 3 + 2
    assert "The table shows <code>card2</code>; the CSV contains the other GPUs." in text
    host = many(6, columns=["recording"], gpu=None)
    assert list(host.frame.index[_is_of(host.frame, FOCUS)]) == [2, 5]
    pairs = pd.DataFrame({"gpu_a": ["card1", "card2"], "gpu_b": ["card2", "card3"]})
    assert _is_of(pairs, FOCUS).all()
    for cards, shown in ((MOST_COLUMNS, MOST_COLUMNS), (MOST_COLUMNS + 1, 1)):
        frame = pd.DataFrame({"recording": [f"card{n}" for n in range(cards)], "item": "os"})
        shape = ("item", "recording", "value", "Environment")
        rows_of = Rows("environment", frame.assign(value="Linux"))
        text = in_page("pivot", rows_of, *shape, focus=FOCUS)
        assert text.count("<th ") == shown + 1


FOCUS = Device("card2", "card2", True, "Card", "CPU", False, False, False, ())


def many(count, **more):
    """Return `count` rows that belong to three GPUs in turn."""
    owners = [f"card{place % 3}" for place in range(count)]
    return Rows("models", pd.DataFrame(dict.fromkeys(more.pop("columns"), owners)).assign(**more))
