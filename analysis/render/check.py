"""Comparing every number of a report with the CSV cell that its markup names.

This module shares no code with the page's renderer: it reads the page and the tables as text. For a
number, the cell must round to the digits shown, in the unit shown. For a count, the number of
matching rows must be equal. Numbers without markup must occur in a template.
"""

import csv
import html
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from analysis.domain import CEILINGS
from analysis.render.numbers import LOCATION_TITLES
from base.errors import StudyError
from base.paths import MAKE_REPORT

_MOST_FAULTS = 20  # faults that are printed; more are only counted

# Factors from a unit on the page to the unit in the CSV.
_SCALES = {"p": 1e-12, "n": 1e-9, "µ": 1e-6, "m": 1e-3, "": 1.0, "M": 1e6, "G": 1e9, "T": 1e12}
_UNITS = {p + u: f for p, f in _SCALES.items() for u in ("s", "FLOP/s", "FLOP/J", "B/s", "Hz", "J")}
_UNITS |= dict.fromkeys(("", "×", "times", "°C", "W", "B"), 1.0)
_UNITS |= {"%": 0.01, "GB": 1e9, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}
_MACHINE = str.maketrans("−⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "--0123456789", "\u202f\u00a0")
_NUMBER = re.compile(r"(−?[\d\u202f.]+(?:×10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)?|−?∞)[\u00a0 ]?(\S*)")
_WORDS = {"True": "yes", "False": "no", "": "–"} | CEILINGS | LOCATION_TITLES
_NOT_TEXT = ("script", "style", "svg", "form", "noscript")
# An HTML element that names the place of its value, and an optional interval after it.
_TRACED = re.compile(
    r'<\w+ data-(at|count)="([^"]*)"(?: data-(?:unit|where)="([^"]*)")?>([^<]*)</\w+>'
    r"(?:<small>([^<]*)</small>)?"
)
_TABLE = re.compile(r'<table [^>]*data-csv="(\w+)">(.*?)</table>', re.DOTALL)
_COLUMN = re.compile(r'data-column="(\w*)"[^>]*>[^<]*(?:<span class="unit">([^<]*)</span>)?')
_ROW = re.compile(r'<tr data-row="(\d+)">(.*?)</tr>')
_CELL = re.compile(r"<td[^>]*>(.*?)(?: <mark.*?</mark>)?(?:<small>([^<]*)</small>)?</td>")
# The place of a text, its unit, and the text. A place is table, row and column; for a ratio, two
# places around " / "; for a count, table, "where" and equalities.
_Shown = tuple[str, str, str]


def print_faults(report: Path, tables_dir: Path, templates: Path) -> int:
    """Print the numbers that differ from their cells; return 1 if there are any, else 0.

    Raise StudyError if the report or a folder cannot be read.
    """
    try:
        page = report.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not valid UTF-8"
        raise StudyError(f"{report}: {reason}; make it with {MAKE_REPORT}") from None
    if not templates.is_dir():
        raise StudyError(f"--templates {templates}: no such folder; correct the path")
    if not any(tables_dir.glob("*.csv")):
        raise StudyError(f"--tables {tables_dir}: contains no tables; make them with {MAKE_REPORT}")
    faults = check(page, tables_dir, templates)
    shown, more = faults[:_MOST_FAULTS], len(faults) - _MOST_FAULTS
    print("\n".join(shown or ["every number agrees with its table"]))
    if more > 0:
        print(f"... and {more} more")
    return int(bool(faults))


def check(page: str, tables_dir: Path, templates: Path | None = None) -> list[str]:
    """Return one line per number or name of a page that differs from the tables.

    With `templates`, numbers that name no cell must occur in a template. A page without any number
    is a fault, because nothing was checked.
    """
    page = _without(page, *_NOT_TEXT)
    traced = [*_traced(page), *_cells(page)]
    if not traced:
        return ["no element names a table; this is not a report"]
    faults = [fault for one in traced if (fault := _fault(*one, tables_dir))]
    unread = len(re.findall("data-(?:at|count)=", page)) - len(_TRACED.findall(page))
    if unread:
        faults.append(f"{unread} elements name a place, but their content is not plain text")
    if templates is None:
        return faults
    files = [path for path in templates.rglob("*") if path.suffix in (".j2", ".yaml")]
    templated = " ".join(path.read_text() for path in files)
    templated = _text(_without(re.sub("{#.*?#}", "", templated, flags=re.DOTALL), *_NOT_TEXT))
    prose = _without(_TRACED.sub("", page), "table", "math", "code", "pre", "title", "nav")
    # Digits after a letter belong to a name, such as that of a GPU.
    number = r"(?<![A-Za-z\d.])(?:\d[\d.]*\d|\d)"
    written, shown = (re.findall(number, text) for text in (templated, _text(prose)))
    return faults + [f"{n} is in the text, but in no template" for n in shown if n not in written]


def _without(page: str, *tags: str) -> str:
    for tag in tags:
        page = re.sub(rf"<{tag}\b.*?</{tag}>", "", page, flags=re.DOTALL)
    return page


def _text(markup: str) -> str:
    text = html.unescape(re.sub(r"<[^>]*>", "", markup))
    return re.sub(r"\[U\+([0-9A-F]{4})\]", lambda match: chr(int(match[1], 16)), text)


def _traced(page: str) -> Iterator[_Shown]:
    for kind, place, more, text, bounds in _TRACED.findall(page):
        if kind == "count":
            yield f"{place} where {html.unescape(more)}", "", text
        else:
            yield from _with_bounds(place, more, text, bounds)


def _cells(page: str) -> Iterator[_Shown]:
    """Yield the cells of all tables; a cell below a heading without column must name its place."""
    for table, markup in _TABLE.findall(page):
        columns = _COLUMN.findall(markup)
        for row, line in _ROW.findall(markup):
            cells = _CELL.findall(line)
            if len(cells) != len(columns):
                yield f"{table} {row} ", "", f"{len(cells)} cells below {len(columns)} headings"
            for (column, unit), (text, bounds) in zip(columns, cells, strict=False):
                if column or not text.startswith(("–", "<data data-at=")):
                    yield from _with_bounds(f"{table} {row} {column}", unit, text, bounds)


def _with_bounds(place: str, unit: str, text: str, bounds: str) -> Iterator[_Shown]:
    yield place, unit, _text(text)
    stem, in_s = (place[:-2], "_s") if place.endswith("_s") else (place, "")
    for bound, shown in zip(("low", "high"), bounds.split("–") if bounds else (), strict=False):
        yield f"{stem}_{bound}{in_s}", unit, shown


def _fault(place: str, unit: str, text: str, tables_dir: Path) -> str | None:
    try:
        value = _value(place, tables_dir)
    except (ArithmeticError, AttributeError, LookupError, OSError, ValueError):
        return f"{text}: {place} does not exist in {tables_dir}"
    actual = f"{value} rows of {place}" if " where " in place else f"{place} is {value}"
    return None if _agrees(text, value, unit) else f"{text}: {actual}"


def _value(place: str, tables_dir: Path) -> str:
    name, row, rest = place.split(" ", 2)
    rows = _table(tables_dir / f"{name}.csv")
    if row == "where":
        equal = json.loads(rest).items()
        return str(sum(all(_equal(one[key], value) for key, value in equal) for one in rows))
    if not row.isdecimal():  # because row -1 would be the last row
        raise LookupError(row)
    column, _, below = rest.partition(" / ")
    cell = rows[int(row)][column]
    return repr(float(cell) / float(_value(below, tables_dir))) if below else cell


@cache
def _table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file)
        return list(rows)


def _equal(text: str, value: object) -> bool:
    if isinstance(value, list):
        return any(_equal(text, one) for one in value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return text != "" and float(text) == value
    return text == ("" if value is None else str(value))


def _agrees(shown: str, text: str, unit: str) -> bool:
    if shown in (text, _WORDS.get(text)):
        return True
    if tile := re.fullmatch(r"(\d+)×(\d+)", shown):
        return text != "" and float(text) == int(tile[1]) * 1000 + int(tile[2])
    rough = shown.startswith("about ")
    match = _NUMBER.fullmatch(shown.removeprefix("about "))
    if not match or (match[2] or unit) not in _UNITS:
        return False
    digits = match[1].translate(_MACHINE).replace("×10", "e").replace("∞", "inf")
    try:
        value, number = float(text) / _UNITS[match[2] or unit], float(digits)
    except ValueError:  # the text is also a version such as 580.159.04
        return False
    mantissa, _, exponent = digits.partition("e")
    step = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
    if rough and "." not in mantissa:  # "about" rounds to one significant digit
        step = 10.0 ** (len(mantissa) - 1)
    return value == number or abs(value - number) <= 0.5000001 * step
