"""The check of a page finds every difference from the CSV cells."""

import re
import shutil

import pytest

from analysis.render import numbers, query
from analysis.render.check import check
from analysis.schema import GFLOPS
from tests.support.report_data import cpu_cell, gpu_cell, in_page, recording, tables

CELLS = [
    gpu_cell("card", "block", 512, 0.0123456),
    gpu_cell("card", "naive", 512, 0.05),
    gpu_cell("card", "block", 2048, 0.5, spread=None),
    cpu_cell("card", "naive", 512, 2.0, threads=4),
    gpu_cell("card", "sgemm_top", 1024, 0.01, block_size=128256),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checked")
    tables(folder / "tables", recordings=[recording("card", simulated=True)], summary=CELLS)
    (folder / "templates").mkdir()
    (folder / "templates" / "page.html.j2").write_text("Medians of at least 6 samples, 2N³ flop.")
    return folder


@pytest.fixture(scope="module")
def page(folder):
    """A page with every kind of number, name and table."""
    store = query.Store(folder / "tables")
    summary = query.rows(store, "summary")
    block = summary.where(variant="block", n=512).first
    naive = summary.where(variant="naive", gpu="card").first
    single, total = summary.where(n=2048).first, (block, "total_s")
    ratios = [numbers.ratio((above, "total_s"), total) for above in (naive, single)]
    share = numbers.share((block, "kernel_s"), total)
    columns, marks = "gpu variant n threads total_s± flop_per_s", {"card": "SIMULATED"}
    return f"""<!doctype html><title>Of 3 cards</title><style>a {{ width: 7px }}</style>
<p>Medians of at least 6 samples, 2N³ flop. {numbers.name(block)} from
{numbers.word(block, "host_memory")} memory takes {numbers.interval(*total)}, at
{numbers.number(block, "flop_per_s", GFLOPS, bare=True)}: {", ".join(map(str, ratios))}, {share} of
it in the kernel; {numbers.count(summary.where(n=512, gpu="card"))} cells,
{numbers.verdict(block, "series")}.</p>
{in_page("table", summary, columns, "All", marks=marks)}
{in_page("table", summary, "variant n block_size", "Blocks")}
{in_page("table", query.rows(store, "recordings"), "gpu simulated live", "Recorded")}
{in_page("pivot", summary.where(device="gpu0"), "n", "variant", "total_s±", "By variant")}"""


def faults(page, folder, prose=True):
    return check(page, folder / "tables", folder / "templates" if prose else None)


def test_the_check_finds_a_changed_digit_of_an_interval_and_a_changed_cell(page, folder, tmp_path):
    assert "128×256" in page
    (fault,) = faults(page.replace("128×256", "128×255"), folder)
    assert fault.startswith("128×255: summary 4 block_size is 128256")
    assert faults(page.replace("at least 6", "at least 9"), folder, prose=False) == []
    found = re.search(r'<td class="n"[^>]*>12\.35<small>([\d.]+)–([\d.]+)', page)
    for start in (found.end(1) - 1, found.end(2) - 1):
        wrong = page[:start] + str((int(page[start]) + 5) % 10) + page[start + 1 :]
        assert len(faults(wrong, folder)) == 1
    shutil.copytree(folder, tmp_path / "changed")
    path = tmp_path / "changed" / "tables" / "summary.csv"
    path.write_text(path.read_text().replace("0.0123456,", "0.0133456,", 1))
    found = faults(page, tmp_path / "changed")
    assert any(fault.startswith("12.35") and "0.0133456" in fault for fault in found), found
    assert len(found) >= 4, "in the sentence, in its ratios, in both tables"


@pytest.mark.parametrize(
    ("pattern", "changed", "words"),
    [
        (r">12\.35\u00a0ms<", ">12.36\u00a0ms<", "12.36"),
        (r">12\.22<", ">12.32<", "12.32"),
        (r">21\.74<", ">21.75<", "21.75"),
        (r">4\.05×<", ">4.06×<", "4.06"),
        (r">about 40×<", ">about 50×<", "about 50"),
        (r">25\u00a0%<", ">26\u00a0%<", "26"),
        (r">12\.35\u00a0ms<", ">12.35\u00a0µs<", "12.35"),
        (r'data-unit="GFLOP/s"', 'data-unit="TFLOP/s"', "21.74"),
        (r'<span class="unit">ms</span>', '<span class="unit">s</span>', "total_s"),
        (r">12\.35\u00a0ms<", ">12.35\u00a0furlongs<", "12.35"),
        (r">2</data> cells", ">3</data> cells", "2 rows of summary"),
        (r"&#34;n&#34;: 512", "&#34;n&#34;: 2048", "1 rows of summary"),
        (r">block</code> from", ">blocks</code> from", "blocks"),
        (r">pageable</span>", ">pinned</span>", "pinned"),
        (r">sizes</span>", ">shapes</span>", "shapes"),
        (r'<td class="n">500\.0', '<td class="n">500.1', "500.1"),
        (r"<td><code>naive</code>", "<td><code>block</code>", "block: summary"),
        (r">12\.35\u00a0ms<", ">580.159.04<", "580.159.04: summary"),
        (r"<td>yes</td>", "<td>no</td>", "simulated"),
        (r'<td class="n">–', '<td class="n">1', "threads"),
        (r'<td class="n">512', '<td class="n">–', "512"),
        (r'<tr data-row="0"', '<tr data-row="1"', "summary 1"),
        (r'data-column="flop_per_s"', 'data-column="kernel_flop_per_s"', "kernel_flop_per_s"),
        (r'(data-at="summary 1 total_s" data-unit="ms">)50\.00<', r"\g<1>50.01<", "50.01"),
        (r"Medians of at least", "Medians of 7 at least", "7 is in the text"),
        (r"cells,", "cells of 0.95,", "0.95 is in the text"),
    ],
)
def test_the_check_finds_what_differs_from_the_csv(page, folder, pattern, changed, words):
    wrong, count = re.subn(pattern, changed, page, count=1)
    assert count == 1
    found = faults(wrong, folder)
    assert any(words in fault for fault in found), found
    assert all("\n" not in fault for fault in found)


def test_digits_in_the_name_of_a_gpu_are_no_number_of_the_page(page, folder):
    assert faults(page.replace("Medians of", "Medians on h417 of"), folder) == []
    (fault,) = faults(page.replace("Medians of", "Medians on h417 of 41"), folder)
    assert fault.startswith("41 is in the text")


def test_the_command_check_prints_differences_and_returns_1(page, folder, tmp_path, command):
    for value, status in (("12.35", 0), ("12.34", 1)):
        (tmp_path / "page.html").write_text(page.replace("12.35\u00a0ms", f"{value}\u00a0ms"))
        options = ("--tables", folder / "tables")
        done = command("check", tmp_path / "page.html", *options)
        assert done.returncode == status
        assert done.stdout.startswith(value) or status == 0
