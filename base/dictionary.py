"""The data dictionary: every column of recordings and tables, declared once.

`dictionary.txt` declares columns, the files of a recording, and the tables of the study.
`measurement.recording.schema` checks recordings against it. `analysis.schema` offers it to the code
that computes, writes, reads and shows tables.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

SOURCE = Path(__file__).with_suffix(".txt")
Kind = Literal["text", "flag", "count", "number"]
LARGEST = 2.0**53  # float64 represents every whole number up to this one
_KINDS = ("text", "flag", "count", "number")


@dataclass(frozen=True)
class Declaration:
    """A column: its type, unit, heading, and the values that a recording may contain.

    If a column does not have the usual number of significant digits of its unit, `unit` ends with
    that number in parentheses. Numbers must be from `least` to `most`. If `words` or `pattern` is
    given, a text must be one of these words or match the pattern.
    """

    kind: Kind
    unit: str
    heading: str
    least: float = 0.0
    most: float = LARGEST
    words: tuple[str, ...] = ()
    pattern: str = ""


@dataclass(frozen=True)
class Table:
    """A table: its description and its columns in order."""

    name: str
    description: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class File:
    """A file of a recording: its columns, those that may have gaps, and its unique keys."""

    name: str
    description: str
    columns: tuple[str, ...]
    gaps: frozenset[str]
    keys: tuple[tuple[str, ...], ...]


def interval_columns(column: str) -> tuple[str, str]:
    """Return the names of the bounds of `column`: _low or _high precedes its unit."""
    stem, unit = (column[:-2], "_s") if column.endswith("_s") else (column, "")
    return f"{stem}_low{unit}", f"{stem}_high{unit}"


def with_bounds(column: str) -> list[str]:
    """Return the names of a column and of its bounds, in the order of the tables."""
    return [column, *interval_columns(column)]


def declared(place: str, name: str) -> Declaration:
    """Return the declaration of column `name` in table or file `place`; raise KeyError."""
    try:
        return COLUMNS.get(f"{place}.{name}") or COLUMNS[name]
    except KeyError:
        raise KeyError(f"{place}.{name} is not declared; add a line to {SOURCE.name}") from None


def _sections() -> dict[str, list[str]]:
    """Return each section's entries, which can span lines, by the section's title."""
    text = SOURCE.read_text(encoding="utf-8")
    parts = re.split(r"^## (.*)\n", text, flags=re.MULTILINE)[1:]
    bodies = (re.sub(r"^#.*\n", "", body, flags=re.MULTILINE).strip() for body in parts[1::2])
    return {
        title: re.split(r"\n(?! )", body) for title, body in zip(parts[::2], bodies, strict=True)
    }


def _declarations(entries: list[str]) -> Iterator[tuple[str, Declaration]]:
    for entry in entries:
        kind, plain, names = entry.partition(": ")
        if plain:
            for name in names.split():
                yield name, Declaration(cast(Kind, kind), "-", name.replace("_", " "))
        else:
            name, declaration = entry.split(None, 1)
            yield name, _declaration(declaration)


def _declaration(text: str) -> Declaration:
    """Parse a declaration of the form "type unit values heading"."""
    kind, unit, values, heading = text.split(None, 3)
    if kind not in _KINDS:
        raise ValueError(f"{SOURCE}: {kind} is no type")
    plain = Declaration(cast(Kind, kind), unit, heading)
    if values == "*":
        return plain
    if kind != "text":
        least, most = values.split("..")
        return Declaration(plain.kind, unit, heading, float(least), float(most or LARGEST))
    if values.startswith("/"):
        return Declaration(plain.kind, unit, heading, pattern=values.strip("/").replace("␣", " "))
    return Declaration(plain.kind, unit, heading, words=tuple(values.split("|")))


def _lists(entries: list[str]) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the name, the description and the remaining lines of each entry of a section."""
    for entry in entries:
        header, *lines = re.sub(r"\n {5,}", " ", entry).splitlines()
        name, description = header.split(": ", 1)
        yield name, description, [line.strip() for line in lines]


def _names(place: str, lines: list[str]) -> list[str]:
    """Return the column names in `lines`; a declaration after " = " applies to `place` only."""
    columns: list[str] = []
    for line in lines:
        names, _, override = line.partition(" = ")
        columns += names.split()
        if override:
            COLUMNS[f"{place}.{names.strip('±?')}"] = _declaration(override)
    return columns


def _table(name: str, description: str, lines: list[str]) -> Table:
    columns: list[str] = []
    for column in _names(name, lines):
        base = column.removesuffix("±")
        columns += with_bounds(base) if column.endswith("±") else [base]
    return Table(name, description, tuple(columns))


def _file(name: str, description: str, lines: list[str]) -> File:
    keys = [line.removeprefix("unique: ") for line in lines if line.startswith("unique: ")]
    columns = _names(name, [line for line in lines if not line.startswith("unique: ")])
    gaps = frozenset(column[:-1] for column in columns if column.endswith("?"))
    return File(
        name,
        description,
        tuple(column.rstrip("?") for column in columns),
        gaps,
        tuple(tuple(key.split()) for key in keys),
    )


_SECTIONS = _sections()
COLUMNS: dict[str, Declaration] = dict(_declarations(_SECTIONS["Columns"]))
FILES = {entry[0]: _file(*entry) for entry in _lists(_SECTIONS["Recordings"])}
TABLES = {entry[0]: _table(*entry) for entry in _lists(_SECTIONS["Tables"])}
