"""Each sentence of the report that names an extreme is listed with its proof, and is true."""

import csv
import importlib
import shutil
from pathlib import Path

import pytest

from benchmarks import sentences
from tests.support import ROOT
from tests.support.reports import made

TEMPLATES = sorted((ROOT / "report").rglob("*.j2"))


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_every_extreme_of_a_template_is_listed(path):
    assert sentences.unlisted(sentences.of_template(path.read_text())) == []


def test_an_unlisted_sentence_is_found():
    template = "<p>{% if a %}It is {{ name(a) }}.{% endif %} The {{ n(a) }} is best.</p>"
    assert sentences.unlisted(sentences.of_template(template)) == ["The … is best.."]
    assert sentences.unlisted(["A kernel-only time.", "It is slow."]) == []


def test_every_proof_exists():
    for text, proof in sentences.LISTED.items():
        if isinstance(proof, str):
            module, _, name = proof.partition(":")
            found = importlib.import_module(module)
            assert not name or hasattr(found, name), text


def test_every_entry_is_in_a_template_or_a_text_of_the_analysis():
    shown = [one for path in TEMPLATES for one in sentences.of_template(path.read_text())]
    code = [path.read_text() for path in (ROOT / "analysis").rglob("*") if path.is_file()
            if path.suffix in (".py", ".txt")]  # fmt: skip
    written = "\n".join([*shown, *code, "all", "None"])
    assert [
        t for t in sentences.LISTED if t.removeprefix("=").removesuffix("best") not in written
    ] == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["nothing", "host", "card", "several", "measured"])
def test_every_listed_sentence_of_a_page_is_true(kind):
    folder = made(kind)
    assert sentences.faults((folder / "report.html").read_text(), folder / "tables") == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "column", "query"),
    [
        ("answers", "total_s", "fastest_run"),
        ("answers", "next_total_s", "next_fastest"),
        ("ladder_summary", "kernel_flop_per_s", "fastest_block"),
        ("ladder_summary", "speedup_low", "recomputed"),
    ],
)
def test_a_changed_table_makes_a_sentence_false(tmp_path, table, column, query):
    folder = made("card")
    shutil.copytree(folder / "tables", tmp_path / "tables")
    path = tmp_path / "tables" / f"{table}.csv"
    _halve(path, column)
    faults = sentences.faults((folder / "report.html").read_text(), tmp_path / "tables")
    assert any(query in fault for fault in faults), faults


def _halve(path: Path, column: str) -> None:
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row[column] = str(float(row[column]) / 2) if row[column] else ""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
