"""Columns of the study's tables, with their units in the report.

`base.dictionary` declares the columns. They govern writing (`analysis.data.store.write`), reading
(`analysis.data.store.Store`), the report (`analysis.render`) and docs/reference/tables.md
(``gemm-study document tables``).
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import TypeVar

from base.dictionary import FILES, TABLES, Kind, declared, interval_columns, with_bounds

__all__ = ["TABLES", "Kind", "interval_columns", "with_bounds"]
Value = TypeVar("Value")


@dataclass(frozen=True)
class Unit:
    """How a quantity is shown: the factor from SI units, the unit's name, and significant digits.

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


def bounded(column: str, value: Value, low: Value, high: Value) -> dict[str, Value]:
    """Return a value and its bounds, by column."""
    return dict(zip(with_bounds(column), (value, low, high), strict=True))


def renaming(column: str, to: str) -> dict[str, str]:
    """Return the new names of a column and of its bounds, by present name."""
    return dict(zip(with_bounds(column), with_bounds(to), strict=True))


@cache
def column(table: str, name: str) -> Column:
    """Return a column of a table; a bound has the type and the unit of the value that it bounds."""
    base = _bounded_column(table, name)
    declaration = declared(table, base or name)
    heading = declaration.heading
    if base:
        heading += ", lower bound" if name == interval_columns(base)[0] else ", upper bound"
    return Column(name, declaration.kind, heading, _unit(declaration.unit, declaration.kind))


def _unit(text: str, kind: str) -> Unit:
    name, _, digits = text.rstrip(")").partition("(")
    unit = COUNT if (kind, name) == ("count", "-") else _UNITS[name]
    if not digits:
        return unit
    return replace(unit, digits=None if digits == "printed" else int(digits))


def _bounded_column(table: str, name: str) -> str | None:
    bases = (name.replace(bound, "", 1) for bound in ("_low", "_high") if bound in name)
    return next((base for base in bases if base in TABLES[table].columns), None)


def documentation() -> str:
    """Return all tables and files with type, unit and heading of each column, in Markdown."""
    page = """# Tables of the study

`gemm-study document tables` writes this page from `base/dictionary.txt`. The CSV files in
`results/tables/` use SI units. The report converts values to the unit given here. ±: the
table also has the bounds of a 95 % interval, in columns with `_low` and `_high`. The files of a
recording are described after the tables.
"""
    for table in TABLES.values():
        page += _heading(f"{table.name}.csv", table.description)
        for name in table.columns:
            if not _bounded_column(table.name, name):
                mark = " ±" if interval_columns(name)[0] in table.columns else ""
                page += _line(table.name, name, mark)
    page += "\n# Files of a recording\n\n?: the column may have gaps.\n"
    for file in FILES.values():
        page += _heading(file.name, file.description)
        for name in file.columns:
            page += _line(file.name, name, " ?" if name in file.gaps else "")
    return page


def _heading(name: str, description: str) -> str:
    text = f"{description[0].upper()}{description[1:]}"
    columns = "| column | type | unit | heading |\n|---|---|---|---|"
    return f"\n## {name}\n\n{text}.\n\n{columns}\n"


def _line(place: str, name: str, mark: str) -> str:
    declaration = declared(place, name)
    unit = _unit(declaration.unit, declaration.kind).name
    return f"| `{name}`{mark} | {declaration.kind} | {unit} | {declaration.heading} |\n"
