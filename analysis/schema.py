"""Schema of the study's tables: the columns of each table, with type, unit and heading.

`schema.txt` declares columns and tables. The schema governs writing (`analysis.data.store.write`),
reading (`analysis.data.store.Store`), the report (`analysis.render`) and docs/reference/tables.md
(``python -m analysis schema``).
"""

import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal, TypeVar, cast

SOURCE = Path(__file__).with_suffix(".txt")
Value = TypeVar("Value")
Kind = Literal["text", "flag", "count", "number"]


@dataclass(frozen=True)
class Unit:
    """The display of a quantity: factor from SI, unit name, significant digits.

    Digits None: as few digits as possible, for rounded published values. Digits 0: whole numbers.
    """

    factor: float
    name: str
    digits: int | None


S = Unit(1.0, "s", 4)
MS = Unit(1e3, "ms", 4)
US = Unit(1e6, "µs", 3)
GFLOPS = Unit(1e-9, "GFLOP/s", 4)
TFLOPS = Unit(1e-12, "TFLOP/s", 3)
GB_PER_S = Unit(1e-9, "GB/s", 3)
BYTES = Unit(1.0, "B", 0)
KIB = Unit(1 / 1024, "KiB", None)
MIB = Unit(1 / 1024**2, "MiB", None)
GIB = Unit(1 / 1024**3, "GiB", 3)
TIMES = Unit(1.0, "×", 3)
PERCENT = Unit(100.0, "%", 2)
COUNT = Unit(1.0, "", 0)
BLOCK = Unit(1.0, "", 1)  # a block size, or rows and columns of a tile in one number
PLAIN = Unit(1.0, "", 3)
FACTOR = Unit(1.0, "", 4)
_MORE = (
    Unit(1e-9, "GB", 3),
    Unit(1e-6, "MHz", 4),
    Unit(1.0, "°C", 0),
    Unit(1.0, "J", 3),
    Unit(1e-9, "GFLOP/J", 3),
    Unit(1.0, "W", 3),
)
_UNITS = {unit.name: unit for unit in (S, MS, US, GFLOPS, GB_PER_S, BYTES, KIB, TIMES, PERCENT)}
_UNITS |= {unit.name: unit for unit in _MORE} | {"-": PLAIN, "block": BLOCK}


@dataclass(frozen=True)
class Column:
    """A column: its name, the type of its cells, its heading and the unit in the report."""

    name: str
    kind: Kind
    heading: str
    unit: Unit


@dataclass(frozen=True)
class Table:
    """A table: its description and its columns in order."""

    name: str
    description: str
    columns: tuple[str, ...]


# How headings write some words of column names.
_WORDS = {word.lower(): word for word in ("CPU", "GPU", "BLAS", "FMA", "FMAs", "DRAM", "A", "B")}
_WORDS |= {"l1": "L1", "l2": "L2", "l3": "L3", "own": "own code", "next": "next fastest"}
_WORDS |= {"pinned": "pinned memory", "pageable": "pageable memory"}


def interval_columns(column: str) -> tuple[str, str]:
    """Return the columns with the bounds of `column`: its name, _low or _high, then its unit."""
    stem, unit = (column[:-2], "_s") if column.endswith("_s") else (column, "")
    return f"{stem}_low{unit}", f"{stem}_high{unit}"


def with_bounds(column: str) -> list[str]:
    """Return a column and its bounds, in the order of the tables."""
    return [column, *interval_columns(column)]


def bounded(column: str, value: Value, low: Value, high: Value) -> dict[str, Value]:
    """Return a value and its bounds, by column."""
    return dict(zip(with_bounds(column), (value, low, high), strict=True))


def renaming(column: str, to: str) -> dict[str, str]:
    """Return the new names of a column and of its bounds, by present name."""
    return dict(zip(with_bounds(column), with_bounds(to), strict=True))


def _entries() -> list[list[str]]:
    """Return the entries of `schema.txt`, one or more lines each: of columns, of tables."""
    text = re.sub(r"^#.*\n", "", SOURCE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [re.split(r"\n(?! )", part) for part in text.strip().split("\n\n")]


def _parse() -> None:
    """Fill `TABLES` and the declarations."""
    declarations, tables = _entries()
    for entry in declarations:
        kind, plain, names = entry.partition(": ")
        if plain:
            _DECLARED.update((name, [kind, "-", name.replace("_", " ")]) for name in names.split())
        else:
            name, *declaration = entry.split(None, 3)
            _DECLARED[name] = declaration
    for entry in tables:
        header, *lines = entry.splitlines()
        table, description = header.split(": ", 1)
        columns: list[str] = []
        for line in lines:
            names, _, override = line.partition(" = ")
            for name in names.split():
                base = name.removesuffix("±")
                columns += with_bounds(base) if name.endswith("±") else [base]
                if override:
                    _DECLARED[f"{table}.{base}"] = override.split(None, 2)
        TABLES[table] = Table(table, description, tuple(columns))


@cache
def column(table: str, name: str) -> Column:
    """Return a column of a table; a bound has the type and unit of its value."""
    base = _bounded_column(table, name)
    kind, unit, heading = _declaration(table, base or name)
    if base:
        heading += ", lower bound" if name == interval_columns(base)[0] else ", upper bound"
    return Column(name, cast(Kind, kind), heading, _unit(unit, kind))


def _declaration(table: str, name: str) -> list[str]:
    """Return type, unit and heading; raise KeyError if `name` is not declared."""
    exact = _DECLARED.get(f"{table}.{name}") or _DECLARED.get(name)
    if exact:
        return exact
    patterns = {each: each.replace("*", "(.+)") for each in _DECLARED if "*" in each}
    fitting = [each for each, pattern in patterns.items() if re.fullmatch(pattern, name)]
    if not fitting:
        raise KeyError(f"{table}.{name} is not declared; add a line to analysis/schema.txt")
    best = max(fitting, key=len)
    kind, unit, heading = _DECLARED[best]
    words = re.sub(patterns[best], r"\1", name).split("_")
    return [kind, unit, heading.replace("*", " ".join(_WORDS.get(word, word) for word in words))]


def _unit(text: str, kind: str) -> Unit:
    """Return a unit by name, with other significant digits if it has a suffix such as (3)."""
    name, _, digits = text.rstrip(")").partition("(")
    unit = COUNT if (kind, name) == ("count", "-") else _UNITS[name]
    if not digits:
        return unit
    return replace(unit, digits=None if digits == "printed" else int(digits))


def _bounded_column(table: str, name: str) -> str | None:
    """Return the column that `name` is a bound of, or None."""
    bases = (name.replace(bound, "", 1) for bound in ("_low", "_high") if bound in name)
    return next((base for base in bases if base in TABLES[table].columns), None)


def documentation() -> str:
    """Return all tables with name, type, unit and heading of each column, in Markdown."""
    page = """# Tables of the study

`python -m analysis schema` writes this page from `analysis/schema.txt`. The CSV files in
`results/tables/` use SI units. The report converts values to the unit given here. ±: the
table also has the bounds of a 95 % interval, in columns with `_low` and `_high`.
"""
    for table in TABLES.values():
        page += f"\n## {table.name}.csv\n\n{table.description[0].upper()}{table.description[1:]}.\n"
        page += "\n| column | type | unit | heading |\n|---|---|---|---|\n"
        for name in table.columns:
            if not _bounded_column(table.name, name):
                each = column(table.name, name)
                mark = " ±" if interval_columns(name)[0] in table.columns else ""
                page += f"| `{name}`{mark} | {each.kind} | {each.unit.name} | {each.heading} |\n"
    return page


TABLES: dict[str, Table] = {}
_DECLARED: dict[str, list[str]] = {}
_parse()
