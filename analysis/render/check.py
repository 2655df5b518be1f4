"""Walk every number of a report back to the CSV cell that its markup names.

This shares nothing with what wrote the page: it reads the page as HTML and the tables as CSV text.
What is checked of a number is that the cell, in the unit shown, rounds to the digits shown; of a
count, that so many rows are as it says; of a number without markup, that a template has it word for
word.
"""

import csv
import json
import re
from collections.abc import Iterable, Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

# What one of the unit shown is in the unit of the CSV.
_UNITS = {
    "": 1.0,
    "s": 1.0,
    "ms": 1e-3,
    "µs": 1e-6,
    "ns": 1e-9,
    "ps": 1e-12,
    "×": 1.0,
    "times": 1.0,
    "%": 0.01,
    "GFLOP/s": 1e9,
    "TFLOP/s": 1e12,
    "GB/s": 1e9,
    "MHz": 1e6,
    "GHz": 1e9,
    "°C": 1.0,
    "W": 1.0,
    "B": 1.0,
    "KiB": 1024.0,
    "MiB": 1024.0**2,
    "GiB": 1024.0**3,
}
_MACHINE = str.maketrans("−⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "--0123456789", "\u202f\u00a0")
_SHOWN = re.compile(r"(−?[\d\u202f.]+(?:×10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)?|−?∞)[\u00a0 ]?(\S*)")
_NUMBER = re.compile(r"\d[\d.]*\d|\d")
_SKIPPED = {"script", "style", "svg", "math", "code", "pre", "select", "title", "nav"}
_VOID = {"meta", "link", "br", "img", "input", "hr", "col"}
_WORDS = {"True": "yes", "False": "no", "": "–"}


class _Page(HTMLParser):
    """Collects what is traced, table cells, and the words of the prose that are not."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[tuple[str, dict[str, str]]] = []
        self.traced: list[tuple[dict[str, str], str]] = []
        self.cells: list[tuple[str, str, str, str, str]] = []  # csv, row, column, unit, text
        self.prose: list[str] = []
        self._columns: list[tuple[str, str]] = []
        self._csv = self._row = ""
        self._place = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = {key: value or "" for key, value in attrs}
        if tag == "table":
            self._csv, self._columns = said.get("data-csv", ""), []
        elif tag == "tr":
            self._row, self._place = said.get("data-row", ""), -1
        elif tag == "th":
            self._columns.append((said.get("data-column", ""), ""))
        elif tag == "td":
            self._place += 1
            if self._row:
                column, unit = self._columns[self._place]
                self.cells.append((self._csv, self._row, column, unit, ""))
        if "data-at" in said or "data-count" in said:
            self.traced.append((said, ""))
        if tag not in _VOID:
            self.open.append((tag, said))

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, text: str) -> None:
        tags = [tag for tag, _ in self.open]
        if "unit" in (said.get("class") for _, said in self.open) and "th" in tags:
            self._columns[-1] = (self._columns[-1][0], text)
        traced = any("data-at" in said or "data-count" in said for _, said in self.open)
        if traced:
            said, before = self.traced[-1]
            self.traced[-1] = (said, before + text)
        elif "td" in tags and self._row and "small" in tags:
            csv_name, row, name, unit, _ = self.cells[-1]
            stem, in_s = (name[:-2], "_s") if name.endswith("_s") else (name, "")
            for bound, shown in zip(("low", "high"), text.split("–"), strict=True):
                self.cells.append((csv_name, row, f"{stem}_{bound}{in_s}", unit, shown))
        elif "td" in tags and self._row and "mark" not in tags:
            self.cells[-1] = (*self.cells[-1][:4], self.cells[-1][4] + text)
        elif not _SKIPPED & set(tags) and not {"td", "th"} & set(tags):
            self.prose.append(text)


@cache
def _table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def check(page: str, tables_dir: Path, templates: Path | None = None) -> list[str]:
    """Return a line for each number or name of a page that is not what the tables have.

    With `templates`, digits of the prose that no markup traces have to stand in one of them.
    """
    parsed = _Page()
    parsed.feed(page)
    faults = [*_traced_faults(parsed.traced, tables_dir), *_cell_faults(parsed.cells, tables_dir)]
    if templates is not None:
        said = " ".join(path.read_text() for path in sorted(templates.rglob("*.j2")))
        known, found = (set(_NUMBER.findall(text)) for text in (said, " ".join(parsed.prose)))
        faults += [f"{one} stands in the prose, traced to no table" for one in found - known]
    return faults


def _traced_faults(traced: Iterable[tuple[dict[str, str], str]], tables_dir: Path) -> Iterator[str]:
    for said, shown in traced:
        if "data-count" in said:
            rows, where = (
                _table(tables_dir / f"{said['data-count']}.csv"),
                json.loads(said["data-where"]),
            )
            count = sum(
                all(_equal(row[key], value) for key, value in where.items()) for row in rows
            )
            if str(count) != shown.translate(_MACHINE):
                yield f"{shown}: {count} rows of {said['data-count']}.csv are {where}"
            continue
        cells = []
        for place in said["data-at"].split(" / "):
            name, row, column = place.split(" ")
            cells.append(_table(tables_dir / f"{name}.csv")[int(row)][column])
        text = cells[0] if len(cells) == 1 else repr(float(cells[0]) / float(cells[1]))
        if not _agrees(shown, text, said.get("data-unit", "")):
            yield f"{shown}: {said['data-at']} is {text}"


def _cell_faults(
    cells: Iterable[tuple[str, str, str, str, str]], tables_dir: Path
) -> Iterator[str]:
    for name, row, column, unit, shown in cells:
        text = _table(tables_dir / f"{name}.csv")[int(row)][column] if column else shown
        if not _agrees(shown.strip(), text, unit):
            yield f"{shown}: {name} {row} {column} is {text}"


def _equal(text: str, value: object) -> bool:
    if isinstance(value, list):
        return any(_equal(text, one) for one in value)
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return text == ("" if value is None else str(value))
    return text != "" and float(text) == float(str(value))


def _agrees(shown: str, text: str, unit: str) -> bool:
    """Tell whether what is shown is the text of a cell, or a number that rounds to it."""
    if shown in (text, _WORDS.get(text)):
        return True
    found = _SHOWN.fullmatch(shown)
    if not found or (found[2] or unit) not in _UNITS:
        return False
    digits = found[1].translate(_MACHINE).replace("×10", "e").replace("∞", "inf")
    try:
        value = float(text) / _UNITS[found[2] or unit]
    except ValueError:
        return False
    mantissa, _, exponent = digits.partition("e")
    step = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
    return value == float(digits) or abs(value - float(digits)) <= 0.5000001 * step
