"""The check of a page: what is not its CSV cell is found, wherever it stands."""

import re
import sys

import pytest
from analysis.check import check, summary
from analysis.results import Results

from analysis.__main__ import main
from tests.support.report_data import cpu_cell, gain_row, gpu_cell, recording, report, tables


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A report of one card and its host."""
    base = tmp_path_factory.mktemp("checked")
    cells = [gpu_cell("card", "block", n, n**3 * 1e-12) for n in (512, 2048)]
    cells += [gpu_cell("card", "naive", n, n**3 * 4e-12, spread=None) for n in (512, 2048)]
    cells += [cpu_cell("card", "blocked", 512, 0.02, 64)]
    gains = [gain_row("card", "block", 512, 150.0, 0.02)]
    tables(base / "tables", recordings=[recording("card")], summary=cells, gains=gains)
    report(base, {}, base / "tables")
    return base


@pytest.fixture(scope="module")
def page(base):
    return (base / "report.html").read_text()


@pytest.fixture(scope="module")
def results(base):
    return Results(base / "tables")


def test_a_true_page_has_no_fault(page, results):
    shown, faults = check(page, results)
    assert faults == []
    assert {"summary", "gains", "table1", "systems"} <= {each.table for each in shown}
    assert re.fullmatch(
        r"\d+ numbers and \d+ names walked back to \d+ tables: none differ", summary(shown, faults)
    )


CELL = r'<td><data value="[^"]*">(\d+\.\d+)</data><small>(\d+\.\d+) – (\d+\.\d+)</small></td>'


def test_every_number_of_the_recordings_that_travel_is_its_csvs(measured_report):
    page = (measured_report / "report.html").read_text()
    shown, faults = check(page, Results(measured_report / "tables"))
    assert faults == []
    assert sum(each.is_number for each in shown) > 10_000


@pytest.mark.parametrize("which", [1, 2, 3], ids=["value", "low", "high"])
def test_a_digit_in_a_table_that_is_not_the_csvs_is_found(page, results, which):
    found = re.search(CELL, page)
    start, end = found.span(which)
    digit = page[end - 1]
    changed = page[: end - 1] + str((int(digit) + 5) % 10) + page[end:]
    _, faults = check(changed, results)
    assert len(faults) == 1
    assert repr(changed[start:end]) in faults[0]


@pytest.mark.parametrize(
    ("pattern", "replacement", "words"),
    [
        # the markup names another row, column or value than what is shown
        (r'(<tr data-row=")4(")', r"\g<1>0\2", "the CSV has"),
        (r'<th scope="col" data-column="host_memory">', '<th data-column="build">', "the CSV has"),
        # a name, a flag, a unit, a count
        (r"<td>pageable</td>", "<td>pinned</td>", "the CSV has pageable"),
        (r'<td><code>block</code></td>', "<td><code>blocks</code></td>", "the CSV has block"),
        (r'<span class="unit">ms</span>', '<span class="unit">s</span>', "the CSV has"),
        (r'(data-expression="index.size">)', r"\g<1>9", "the CSV has"),
        # a dash where there is a value, a value where there is none
        (r"<td>512</td>", "<td>–</td>", "the CSV has 512"),
        (r"<td>–</td>", "<td>12</td>", "12"),
        # numbers and names from nowhere
        (r"<dd>", "<dd>About 7 times. ", "a number from nowhere"),
        (r"<td>naive</td>|<td><code>naive</code></td>", "<td><b>fast</b></td>", "fast"),
    ],
)  # fmt: skip
def test_what_is_not_the_csvs_is_found(page, results, pattern, replacement, words):
    changed, count = re.subn(pattern, replacement, page, count=1)
    assert count == 1
    _, faults = check(changed, results)
    assert faults
    assert any(words in fault for fault in faults), faults[:3]


def test_a_number_in_a_sentence_is_held_against_its_row_and_unit(page, results):
    sentence = re.search(r"<dd>The fastest way.*?</dd>", page, re.DOTALL).group()
    interval = re.search(r'data-interval=" \(">([\d.]+)\u00a0ms \(([\d.]+) to ([\d.]+)<', sentence)
    for changed in (
        interval.group().replace("\u00a0ms", "\u00a0µs"),
        *(interval.group().replace(found, f"1{found}") for found in interval.groups()),
    ):
        _, faults = check(page.replace(interval.group(), changed, 1), results)
        assert 1 <= len(faults) <= 3, changed
        assert all("summary.csv" in fault for fault in faults)


def test_the_command_says_what_it_walked_and_fails_where_something_differs(
    base, page, tmp_path, monkeypatch, capsys
):
    def run(path):
        monkeypatch.setattr(
            sys, "argv", ["analysis", "check", str(path), "--tables", str(base / "tables")]
        )
        return main()

    assert run(base / "report.html") == 0
    assert "none differ" in capsys.readouterr().out
    (tmp_path / "wrong.html").write_text(page.replace("<td>512</td>", "<td>513</td>", 1))
    assert run(tmp_path / "wrong.html") == 1
    assert "'513'" in capsys.readouterr().out
