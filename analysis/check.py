"""Walk every number and name of a report's tables and sentences back to the CSV cell it is from.

The page says in its markup where each is from (see `analysis.traces`); here a reader of their own
follows that, and compares.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser

from analysis.results import Results, evaluate, interval_columns
from analysis.wording import visible

_VOID = ("input", "meta", "link", "br", "hr", "img")
_SUPERSCRIPTS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
_BLANK = ("", "–", "not measured")
# What a value in the unit of its CSV is multiplied by to be shown in another.
_FACTORS = {
    "": 1.0,
    "×": 1.0,
    "%": 100.0,
    "cycles": 1.0,
    "s": 1.0,
    "ms": 1e3,
    "µs": 1e6,
    "ns": 1e9,
    "ps": 1e12,
    "GFLOP/s": 1e-9,
    "Gop/s": 1e-9,
    "GB/s": 1e-9,
    "MB": 1e-6,
    "KiB": 1 / 1024,
    "MiB": 1 / 1024**2,
    "GiB": 1 / 1024**3,
    "MHz": 1e-6,
    "GHz": 1e-9,
    "°C": 1.0,
    "W": 1.0,
}
# What a number or a name stands in that says for itself where it is from.
_PARTS = ("data", "code", "span")
# Where each number has to be traced; elsewhere the report's own words may hold some.
_TRACED = ("td", "dd")
# The list of the CSV files names them in the report's own words.
_OWN_WORDS = "table-downloads"
# What an anchor tells where something stands by.
_PLACES = ("figure", "section", "dt")
# Words of the report itself that hold a digit and are no number.
_STARTS_NUMBER = re.compile(r"−?[\d∞]")
_NAMES = re.compile(r"\bM\d\b")


@dataclass
class Shown:
    """What a page shows of CSV cells: `rows` and an `expression` over them, or just one cell.

    `value` is what the CSV calls a name that is shown in other words (None: what is shown), `unit`
    what stands beside the number or above it.
    """

    csv: str
    rows: tuple[int, ...]
    expression: str
    text: str = ""
    value: str | None = None
    unit: str = ""
    is_cell: bool = True
    place: str = ""

    @property
    def is_number(self) -> bool:
        """Whether it looks like a number."""
        return self.value is None and bool(_STARTS_NUMBER.match(self.text))

    @property
    def table(self) -> str:
        """The name of the CSV table."""
        return self.csv.removesuffix(".csv")

    def __str__(self) -> str:
        rows = ",".join(map(str, self.rows[:3])) + (",…" if len(self.rows) > 3 else "")
        return f"{self.place}: {self.text!r} ({self.csv} row {rows} {self.expression})"


@dataclass
class _Column:
    source: int
    name: str
    unit: str = ""


@dataclass
class _Table:
    """What a table says of its cells' origin while it is read."""

    csvs: list[str]
    columns: list[_Column] = field(default_factory=list)
    rows: list[str] = field(default_factory=list)
    position: int = -1

    def at(self, source: int, column: str, text: str = "") -> Shown | None:
        """Return what stands in this row of a source; None where the row has none there."""
        if source >= len(self.rows) or self.rows[source] == "-":
            return None
        found = Shown(self.csvs[source], (int(self.rows[source]),), column, text)
        found.unit = self.columns[self.position].unit
        return found


class Reader(HTMLParser):
    """Read a page: what it shows of CSV cells, and what stands in between."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.shown: list[Shown] = []
        # The report's own words beside what is traced, and cells in which nothing is.
        self.between: list[tuple[str, str]] = []
        self.untraced: list[tuple[str, str]] = []
        self._cell = ""
        self._place = ""
        self._open: list[str] = []
        self._table: _Table | None = None
        self._part: Shown | None = None
        self._bracket = ""
        self._texts: list[str] = []
        self._words: list[str] = []
        self._small: list[str] = []
        self._badge = ""
        self._value: str | None = None
        self._is_traced = False
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a table, row, column, cell or part says of where it is from."""
        said = {name: value or "" for name, value in attrs}
        if tag not in _VOID:
            self._open.append(tag)
        table = self._table
        if tag == "table":
            self._table = _Table(said.get("data-csv", "").split())
        elif tag in _PLACES and "id" in said:
            self._place = said["id"]
        elif table and tag == "th":
            source = int(said.get("data-source", 0))
            table.columns.append(_Column(source, said.get("data-column", "")))
        elif table and tag == "tr":
            table.rows, table.position = said.get("data-row", "").split(), -1
        elif tag in _TRACED:
            self._texts, self._words, self._small, self._badge = [], [], [], ""
            self._value, self._is_traced = None, False
            self._cell = "words" if said.get("class") == "words" else tag
            if table and tag == "td":
                table.position += 1
        elif tag in _PARTS:
            self._part, self._bracket = self._told(said), said.get("data-interval", "")
            if self._part is None:
                self._value = said.get("data-value", self._value)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Pass over what holds nothing: parts of drawings and formulas."""

    def _told(self, said: dict[str, str]) -> Shown | None:
        """Return what a part says of its own origin; None where it follows its column."""
        if "data-expression" in said:
            rows = tuple(_rows(said["data-rows"]))
            part: Shown | None = Shown(said["data-csv"], rows, said["data-expression"])
        elif "data-csv" in said:
            part = Shown(said["data-csv"], (int(said["data-row"]),), said["data-column"])
        elif "data-column" in said and self._table:
            part = self._table.at(int(said.get("data-source", 0)), said["data-column"])
        else:
            return None
        if part:
            part.is_cell = "data-expression" not in said
            part.value = said.get("data-value")
            part.unit = said.get("data-unit", part.unit or self._unit_above())
            self._show(part)
        return part

    def _unit_above(self) -> str:
        table = self._table
        return table.columns[table.position].unit if table and "td" in self._open else ""

    def handle_data(self, data: str) -> None:
        """Take the text into the part, the unit or the cell that it stands in."""
        if self._table and self._open[-2:] == ["th", "span"]:
            self._table.columns[-1].unit = data
        elif self._part is not None:
            self._part.text += data
        elif "small" in self._open:
            self._small.append(data)
        elif "mark" in self._open:
            self._badge = data
        elif set(_TRACED) & set(self._open):
            self._texts.append(data)
            self._words += [data] if "code" not in self._open else []

    def handle_endtag(self, tag: str) -> None:
        """Close a part or a cell; a cell that told nothing of its own follows its column."""
        opened = self._open.pop()
        if opened != tag:
            raise ValueError(f"<{opened}> is closed by </{tag}>")
        if tag in _PARTS:
            self._is_traced |= self._part is not None
            if self._part and self._bracket:
                self._part_interval(self._part)
            self._part, self._bracket = None, ""
        elif tag in _TRACED:
            self._close_cell()
        elif tag == "table":
            self._table = None

    def _part_interval(self, part: Shown) -> None:
        """Tell a number of a sentence from its interval behind the bracket."""
        part.text, _, bounds = part.text.partition(self._bracket)
        unit = part.text.partition("\u00a0")[2]
        names = interval_columns(part.expression)
        for text, name in zip(bounds.split(" to "), names, strict=True):
            self._show(Shown(part.csv, part.rows, name, text, unit=unit))

    def _close_cell(self) -> None:
        # A badge alone is the cell's text; beside others it is a remark on them.
        table, text = self._table, "".join(self._texts).strip() or self._badge
        column = table.columns[table.position] if table and table.csvs else None
        found = table.at(column.source, column.name, text) if table and column else None
        if self._is_traced or self._cell == "words" or not (column and column.name and found):
            if self._place != _OWN_WORDS and self._cell != "words":
                self.between.append((self._place, "".join(self._words)))
                if not self._is_traced and self._cell == "td":
                    self.untraced.append((self._place, " ".join([text, *self._small])))
            return
        found.value = self._value
        self._show(found)
        bounds = "".join(self._small).split(" – ")
        if len(bounds) == 2 and table:
            for text, name in zip(bounds, interval_columns(column.name), strict=True):
                bound = table.at(column.source, name, text)
                if bound:
                    bound.unit = found.text.partition("\u00a0")[2] or bound.unit
                    self._show(bound)

    def _show(self, shown: Shown) -> None:
        shown.place = self._place
        self.shown.append(shown)


def _rows(text: str) -> Iterator[int]:
    for run in filter(None, text.split(",")):
        low, _, high = run.partition("-")
        yield from range(int(low), int(high or low) + 1)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def check(html: str, results: Results) -> tuple[list[Shown], list[str]]:
    """Return all that a page shows of the tables, and one line for each thing that is not theirs.

    A number has to be its CSV cell's, in the unit that it is shown in, right to its last digit; a
    name its cell's text, or said to stand for it; a dash has to stand for a blank. Of the report's
    own words no digit may stand in a cell or a sentence, and no cell that does not say so.
    """
    reader = Reader(html)
    faults = [f"{shown}: {fault}" for shown in reader.shown if (fault := _fault(shown, results))]
    for place, text in reader.between:
        faults += [f"{place}: {text!r}: a number from nowhere"] if _has_digit(text) else []
    for place, text in reader.untraced:
        faults += [f"{place}: {text!r}: a cell from nowhere"] if text not in _BLANK else []
    return reader.shown, faults


def _has_digit(text: str) -> bool:
    return bool(re.search(r"\d", _NAMES.sub("", text)))


def _fault(shown: Shown, results: Results) -> str:
    """Return what is wrong with one shown number or name; "" where nothing is."""
    if shown.is_cell:
        written = str(results.text(shown.table, shown.rows[0], shown.expression))
    else:
        written = repr(evaluate(results.frame(shown.table), shown.rows, shown.expression))
    told = shown.text if shown.value is None else shown.value
    if told == visible(written) or (told in _BLANK and written == ""):
        return ""
    if shown.is_number and _is_number(written) and _is_rounded(shown, float(written)):
        return ""
    return f"the CSV has {written}"


def _is_rounded(shown: Shown, value: float) -> bool:
    """Whether the text is `value` in its unit, to half of its last digit."""
    digits, _, unit = shown.text.partition("\u00a0")
    digits = digits.replace("\u202f", "").replace("−", "-")
    if digits in ("∞", "-∞"):
        return value == math.copysign(math.inf, -1 if digits[0] == "-" else 1)
    mantissa, _, raised = digits.partition("×10")
    power = int(raised.translate(_SUPERSCRIPTS) or 0)
    scaled = value * _FACTORS[unit or shown.unit]
    last = 10.0 ** (power - len(mantissa.partition(".")[2]))
    return abs(float(mantissa) * 10.0**power - scaled) <= 0.5001 * last


def summary(shown: Sequence[Shown], faults: Sequence[str]) -> str:
    """Return the line that tells how many things were walked back, and to how many tables."""
    numbers = sum(each.is_number for each in shown)
    tables = len({each.csv for each in shown})
    return (
        f"{numbers} numbers and {len(shown) - numbers} names walked back to {tables} tables: "
        f"{len(faults) or 'none'} differ{'s' if len(faults) == 1 else ''}"
    )
