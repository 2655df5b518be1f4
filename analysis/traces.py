"""Where a table's cells come from, said once a table, a row and a column instead of in each cell.

A table names its CSV files in ``data-csv``, one for each set of rows that it is made of; a row
gives its row in each of them in ``data-row`` (``-``: in none); a column names the CSV column in
``data-column`` and the position of its file in ``data-source`` (0 where it is not said). Only a
cell that does not follow its column says for itself where it is from.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from analysis.results import Number, Text, interval_columns
from analysis.views import Cell, Table
from analysis.wording import Code, Part


class Place(NamedTuple):
    """One cell of a CSV table."""

    csv: str
    row: int
    column: str


@dataclass
class Source:
    """A CSV file and the row of it that each row of a table is from."""

    csv: str
    rows: dict[int, int] = field(default_factory=dict)

    def takes(self, csv: str, rows: dict[int, int]) -> bool:
        """Whether a column with these `rows` of `csv` can be from here too."""
        return csv == self.csv and all(self.rows.get(i, row) == row for i, row in rows.items())


@dataclass(frozen=True)
class Column:
    """The CSV column that a table's column shows, and its file's position; "": none, or several."""

    name: str = ""
    source: int = 0


@dataclass(frozen=True)
class Trace:
    """Where the cells of one table come from."""

    table: Table
    sources: tuple[Source, ...]
    columns: tuple[Column, ...]

    @property
    def csvs(self) -> str:
        """The table's ``data-csv``."""
        return " ".join(f"{source.csv}.csv" for source in self.sources)

    @property
    def numbers(self) -> str:
        """The positions of the columns of numbers, from 1."""
        heads = enumerate(self.table.columns, start=1)
        return " ".join(str(position) for position, head in heads if head.is_number)

    def rows_of(self, row: int) -> str:
        """Return a row's ``data-row``."""
        return " ".join(str(source.rows.get(row, "-")) for source in self.sources)

    def follows(self, row: int, column: int) -> bool:
        """Whether a cell shows what its row and column say."""
        said, place = self.columns[column], place_of(self.table.rows[row].cells[column])
        if place is None or place.column != said.name:
            return False
        source = self.sources[said.source]
        return (source.csv, source.rows.get(row)) == (place.csv, place.row)

    def source_of(self, part: Part, row: int) -> int | None:
        """Return the position of the source whose CSV row of this row `part` is from, if any."""
        found = place(part)
        for position, source in enumerate(self.sources if found else ()):
            if found and (source.csv, source.rows.get(row)) == (found.csv, found.row):
                return position
        return None

    def bounds_follow(self, row: int, column: int) -> bool:
        """Whether the interval of a cell stands beside its value in the CSV."""
        cell = self.table.rows[row].cells[column]
        if not (cell.low and cell.high and self.follows(row, column)):
            return False
        found = [(n.table, n.rows, n.expression) for n in (cell.low, cell.high)]
        place = place_of(cell)
        assert place
        wanted = interval_columns(place.column)
        return found == [(place.csv, (place.row,), column) for column in wanted]


class Measured(NamedTuple):
    """A number of a sentence and, in the same row of its CSV, its interval."""

    value: Number
    bracket: str
    low: Number
    high: Number


def fused(parts: Sequence[Part]) -> list[Part | Measured]:
    """Return `parts`, each number whose interval follows it together with that."""
    found: list[Part | Measured] = []
    rest = list(parts)
    while rest:
        match rest:
            case [
                Number() as value,
                str() as bracket,
                Number() as low,
                " to ",
                Number() as high,
                *_,
            ]:
                bounds = [(each.table, each.rows, each.expression) for each in (low, high)]
                wanted = interval_columns(value.expression) if value.is_cell else ()
                if bounds == [(value.table, value.rows, column) for column in wanted]:
                    found.append(Measured(value, bracket, low, high))
                    del rest[:5]
                    continue
        found.append(rest.pop(0))
    return found


def place_of(cell: Cell) -> Place | None:
    """Return the CSV cell that a cell shows and nothing else; None where it is not just one."""
    # A badge alone is what the cell shows.
    parts = [part for part in cell.parts if part != ""] or [cell.badge]
    return place(parts[0]) if len(parts) == 1 else None


def place(part: Part) -> Place | None:
    """Return the CSV cell that a part of a text is from."""
    if isinstance(part, Number):
        return Place(part.table, part.rows[0], part.expression) if part.is_cell else None
    text = part.text if isinstance(part, Code) else part
    return Place(text.table, text.row, text.column) if isinstance(text, Text) else None


def trace(table: Table) -> Trace:
    """Return where the cells of `table` come from: its files, and a CSV column for each column."""
    sources: list[Source] = []
    columns = []
    for position in range(len(table.columns)):
        places = {
            index: found
            for index, row in enumerate(table.rows)
            if (found := place_of(row.cells[position])) is not None
        }
        if not places:
            columns.append(Column())
            continue
        (csv, name), _ = Counter((p.csv, p.column) for p in places.values()).most_common(1)[0]
        rows = {i: p.row for i, p in places.items() if (p.csv, p.column) == (csv, name)}
        number = next((i for i, each in enumerate(sources) if each.takes(csv, rows)), len(sources))
        if number == len(sources):
            sources.append(Source(csv))
        sources[number].rows.update(rows)
        columns.append(Column(name, number))
    return Trace(table, tuple(sources), tuple(columns))


def is_plain(cell: Cell) -> bool:
    """Whether a cell of one number sorts by what is read in it."""
    number = next((part for part in cell.parts if isinstance(part, Number)), None)
    alone = not (cell.low or cell.note or cell.badge)
    return alone and number is not None and str(number) == number.key


def ranges(rows: Sequence[int]) -> str:
    """Return row numbers as text, neighbours as a range: "3-7,9"; their order is kept."""
    runs: list[list[int]] = []
    for row in rows:
        if runs and row == runs[-1][1] + 1:
            runs[-1][1] = row
        else:
            runs.append([row, row])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)
