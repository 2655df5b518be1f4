"""How wide a table is at least, in characters: what its print has to fit on a page by."""

import re

from analysis.views import Cell, Column, Table

# A cell with more words, or one word as long, is broken where it has to be.
_LONG_TEXT, _LONG_WORD = 60, 30
# What a long cell is left at least, and the space between two columns.
_LEAST_LONG, _GAP = 16.0, 1.4
_SMALL_PRINT, _BOLD = 0.85, 1.15


def is_long(text: str) -> bool:
    """Whether a cell or heading holds a sentence, or something like a checksum."""
    return len(text) > _LONG_TEXT or _longest_word(text) > _LONG_WORD


def width(table: Table) -> int:
    """Return how many characters have to fit side by side, if every text breaks at its spaces."""
    columns = enumerate(table.columns)
    return round(sum(_column(table, position, column) for position, column in columns))


def _column(table: Table, position: int, column: Column) -> float:
    word = _LEAST_LONG if is_long(column.heading) else _longest_word(column.heading)
    heading = _BOLD * max(word, len(column.unit))
    return _GAP + max([heading, *(_cell(row.cells[position]) for row in table.rows)])


def _cell(cell: Cell) -> float:
    text = "".join(str(part) for part in cell.parts)
    if is_long(text):
        return _LEAST_LONG
    bounds = len(f"{cell.low} – {cell.high}") if cell.low else 0
    small = _SMALL_PRINT * max(bounds, len(cell.note), len(cell.badge))
    return max(small, _longest_word(text))


def _longest_word(text: str) -> int:
    # Numbers and their units stand together, by spaces that do not break.
    return max((len(word) for word in re.split(r"[ \-/]", text)), default=0)
