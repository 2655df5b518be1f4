"""The schema of a recording's tables: columns, types, limits and keys, by `base.dictionary`.

`measurement.recording.provenance_schema` is the schema of provenance.json.
`measurement.recording.consistency` states the rules between rows, tables and provenance. This
module does not import pandas.
"""

import re
from dataclasses import dataclass, field

import numpy as np

from base.dictionary import FILES, LARGEST, declared

MOST_CHARACTERS = 4096  # per text
# The columns that identify a kernel, a cell, and a build.
KERNEL = ["device", "variant", "dtype", "batch", "m", "n", "k", "block_size"]
CELL = [*KERNEL, "host_memory", "threads"]
SETTING = ["pieces", "staging_threads", "chunk_bytes"]  # of a run in pieces
BUILD = ["architecture", "variant", "dtype", "block_size", "build"]


@dataclass(frozen=True)
class Column:
    """The values of a column: `kind` is its pandas type.

    Numbers are from `least` to `most`. A text is one of `words` or matches `pattern`.
    """

    kind: str
    least: float = 0.0
    most: float = LARGEST
    words: tuple[str, ...] = ()
    pattern: str = ""

    def text_fault(self, text: str) -> str | None:
        """Return why a text is invalid; None if it is valid."""
        if self.words:
            return None if text in self.words else f"{text!r} is not one of {sorted(self.words)}"
        if self.pattern and not re.fullmatch(self.pattern, text):
            return f"{text!r:.60} is not valid"
        try:
            check_text(text)
        except ValueError as error:
            return str(error)
        return None

    def number_fault(self, values: np.ndarray, given: np.ndarray) -> tuple[int, str] | None:
        """Return the index of the first invalid number, and why; None if all are valid.

        `given` is False where a value is missing.
        """
        right = (self.least <= values) & (values <= self.most) & ~np.signbit(values)
        if self.kind == "Int64":
            right &= values == np.floor(values)
        wrong = given & ~right
        if not wrong.any():
            return None
        at = int(wrong.argmax())
        if self.kind == "Int64" and self.least <= values[at] <= self.most:
            return at, f"is {values[at]:.16g}, not a whole number"
        return at, f"is {values[at]:.16g}, not from {self.least:g} to {self.most:.16g}"


def check_text(text: str) -> None:
    """Raise ValueError if a text is too long or contains an unprintable character.

    Line breaks, control characters except tabs, and marks of the writing direction are unprintable.
    """
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"a text has {len(text)} characters, more than {MOST_CHARACTERS}")
    plain = text.replace("\t", " ")
    if not plain.isprintable() or (not plain.isascii() and max(plain) > "\uffff"):
        strange = next(c for c in plain if not c.isprintable() or c > "\uffff")
        raise ValueError(f"a text contains the character U+{ord(strange):04X}")


def one_line(text: str) -> str:
    """Return a text as `check_text` allows it: other characters are replaced, the end is cut."""
    plain = "".join(c if c.isprintable() and c <= "\uffff" else " " for c in text)
    return plain[:MOST_CHARACTERS]


@dataclass(frozen=True)
class Table:
    """A table: its columns in order, the columns that may have gaps, and its unique `keys`."""

    columns: tuple[str, ...]
    gaps: frozenset[str]
    keys: tuple[tuple[str, ...], ...]
    kinds: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        kinds = {name: COLUMNS[name].kind for name in self.columns}
        object.__setattr__(self, "kinds", kinds)


_PANDAS = {"text": "string", "count": "Int64", "number": "float64"}


def _column(file: str, name: str) -> Column:
    column = declared(file, name)
    return Column(_PANDAS[column.kind], column.least, column.most, column.words, column.pattern)


# Every column by name, and every table by its file name.
COLUMNS = {name: _column(file.name, name) for file in FILES.values() for name in file.columns}
ALL = {file.name: Table(file.columns, file.gaps, file.keys) for file in FILES.values()}
# The type of every column, by table.
TABLES = {name: table.kinds for name, table in ALL.items()}
