"""Which values the tables of a recording may contain, as declared by `base.dictionary`.

`measurement.recording.provenance_schema` is the schema of provenance.json.
`measurement.recording.consistency` states the rules between rows, tables and provenance. This
module does not import pandas.
"""

import re

import numpy as np

from base.dictionary import FILES, Declaration, declared

MOST_CHARACTERS = 4096  # longest text
# The columns that identify a kernel, a cell, and a build.
KERNEL = ["device", "variant", "dtype", "batch", "m", "n", "k", "block_size"]
CELL = [*KERNEL, "host_memory", "threads"]
SETTING = ["pieces", "staging_threads", "chunk_bytes"]  # columns of the setting of a run in pieces
BUILD = ["architecture", "variant", "dtype", "block_size", "build"]
_PANDAS = {"text": "string", "count": "Int64", "number": "float64"}
# The pandas type of every column, by table.
TABLES = {
    file.name: {name: _PANDAS[declared(file.name, name).kind] for name in file.columns}
    for file in FILES.values()
}


def text_fault(column: Declaration, text: str) -> str | None:
    """Return why a column must not contain this text; None if it may."""
    if column.words:
        return None if text in column.words else f"{text!r} is not one of {sorted(column.words)}"
    if column.pattern and not re.fullmatch(column.pattern, text):
        return f"{text!r:.60} is not valid"
    try:
        check_text(text)
    except ValueError as error:
        return str(error)
    return None


def number_fault(
    column: Declaration, values: np.ndarray, given: np.ndarray
) -> tuple[int, str] | None:
    """Return the index of the first invalid number of a column and why; None if all are valid.

    `given` is False where a value is missing.
    """
    in_range = (column.least <= values) & (values <= column.most)
    right = in_range & ~np.signbit(values)
    if column.kind == "count":
        right &= values == np.floor(values)
    wrong = given & ~right
    if not wrong.any():
        return None
    at = int(wrong.argmax())
    if column.kind == "count" and in_range[at]:
        return at, f"is {values[at]:.16g}, not a whole number"
    return at, f"is {values[at]:.16g}, not from {column.least:g} to {column.most:.16g}"


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
    """Return a text as `check_text` allows it: invalid characters are replaced, the end is cut."""
    plain = "".join(c if c.isprintable() and c <= "\uffff" else " " for c in text)
    return plain[:MOST_CHARACTERS]
