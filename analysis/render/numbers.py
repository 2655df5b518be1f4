"""The numbers, names and verdicts of the page, marked with the CSV cells that they come from.

The markup of a number names its cell, as ``data-at="summary 12 total_s"`` (table, row, column). The
markup of a ratio names both cells; the markup of a count names the table and the filter of its
rows. `analysis.render.check` compares them with the CSV.
"""

import json
import math
import re

from markupsafe import Markup, escape

from analysis.domain import PUBLISHED
from analysis.render.query import Row, Rows
from analysis.schema import BLOCK, PERCENT, TIMES, Unit, column, interval_columns
from analysis.stats.rounding import order_of_magnitude
from kernels.catalog.locations import HOST_MEMORY, LOCATIONS
from kernels.theory import tiles

# Control characters, including those that change the direction of the text after them.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufffe\uffff]"
)
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
ABSENT = "–"
LOCATION_TITLES = {k: one.title for k, one in LOCATIONS.items() if k not in HOST_MEMORY}


def visible(text: str) -> str:
    """Return `text` with invisible control characters written as "[U+202E]"."""
    return _UNSEEN.sub(lambda match: f"[U+{ord(match.group()):04X}]", text)


def number(
    row: Row, name: str, unit: Unit | None = None, bare: bool = False, like: float | None = None
) -> Markup:
    """Return the number in one cell, in `unit` or in the unit of the schema.

    `bare` omits the name of the unit. The number has as many decimals as `like` needs. For a blank
    cell, an en dash is returned.
    """
    at = row.at(name)
    unit = unit or column(at.table, at.column).unit
    if row[name] is None:
        return Markup(ABSENT)
    shown = text(row, name, unit, like)
    return _data(shown, "" if bare else unit.name, at=_place(row, name), unit=unit.name)


def _place(row: Row, name: str) -> str:
    return " ".join(map(str, row.at(name)))


def text(row: Row, name: str, unit: Unit, like: float | None = None) -> str:
    """Return the number in one cell that is not blank, without its unit.

    A measured speedup without an interval is given as an order of magnitude: "about 8000".
    """
    value = float(row[name])
    if (name == "factor" or name.endswith("speedup")) and _has_no_interval(row, name):
        return about(value, unit)
    return show(value, unit, value if like is None else like)


def _has_no_interval(row: Row, name: str) -> bool:
    """Return whether a measured value lacks its interval; published values never have one."""
    low, _ = interval_columns(name)
    published = PUBLISHED in (row.get("source"), row.get("recording"))
    return low in row and row[low] is None and not published


def about(value: float, unit: Unit) -> str:
    """Return a value as an order of magnitude: "about 8000"."""
    scaled = value * unit.factor
    if not math.isfinite(scaled) or scaled == 0:
        return show(value, unit, value)
    rounded = order_of_magnitude(scaled)
    return f"about {_grouped(rounded, max(-math.floor(math.log10(abs(rounded))), 0))}"


def interval(row: Row, name: str, unit: Unit | None = None) -> Markup:
    """Return a number and the bounds of its 95 % interval: "6.370 ms (6.349–6.423)"."""
    bounds = interval_columns(name)
    value = number(row, name, unit)
    if row[name] is None or any(row[bound] is None for bound in bounds):
        return value
    like = float(row[name])
    low, high = (number(row, bound, unit, bare=True, like=like) for bound in bounds)
    # Word joiners prevent a line break inside the interval.
    return Markup("{} ({}\u2060–\u2060{})").format(value, low, high)


def ratio(above: tuple[Row, str], below: tuple[Row, str], unit: Unit = TIMES) -> Markup:
    """Return the ratio of two cells, each a row and a column: "2.31×".

    If a cell lacks its interval, a ratio (no percentage) is given as an order of magnitude.
    """
    values = [row[name] for row, name in (above, below)]
    if None in values or values[1] == 0:
        return Markup(ABSENT)
    places = " / ".join(_place(row, name) for row, name in (above, below))
    value = float(values[0]) / float(values[1])
    rough = unit is not PERCENT and any(_has_no_interval(row, name) for row, name in (above, below))
    shown = about(value, unit) if rough else show(value, unit, value)
    return _data(shown, unit.name, at=places, unit=unit.name)


def share(above: tuple[Row, str], below: tuple[Row, str]) -> Markup:
    """Return the ratio of two cells as a percentage."""
    return ratio(above, below, PERCENT)


def count(rows: Rows) -> Markup:
    """Return the number of rows; they must have been selected by `where` only."""
    if rows.filters is None:
        raise ValueError(f"{rows.table}: a count in the page needs rows selected only by `where`")
    where = json.dumps(rows.filters, sort_keys=True)
    markup = Markup('<data data-count="{}" data-where="{}">{}</data>')
    return markup.format(rows.table, where, len(rows))


def name(row: Row, column_name: str = "variant") -> Markup:
    """Return the name in a cell, for example a variant, in a fixed-width font."""
    return word(row, column_name, "code")


def word(row: Row, column_name: str, tag: str = "span") -> Markup:
    """Return the text of a cell; a location other than host memory is replaced by its title."""
    text = ABSENT if row[column_name] is None else visible(str(row[column_name]))
    if column_name == "host_memory":
        text = LOCATION_TITLES.get(text, text)
    return Markup('<{0} data-at="{1}">{2}</{0}>').format(tag, _place(row, column_name), text)


def verdict(row: Row, column_name: str = "verdict") -> Markup:
    """Return the verdict in a cell as a badge."""
    return Markup('<mark class="badge">{}</mark>').format(word(row, column_name))


def _data(shown: str, unit_name: str, at: str, unit: str) -> Markup:
    space = "" if unit_name in ("", "×") else "\u00a0"
    hidden = Markup(' data-unit="{}"').format(unit) if unit and not unit_name else ""
    markup = Markup('<data data-at="{}"{}>{}{}{}</data>')
    return markup.format(escape(at), hidden, shown, space, unit_name)


def show(value: float, unit: Unit, like: float) -> str:
    """Return `value` in `unit` as text, with the decimals of `like` (for a bound: its median)."""
    if not math.isfinite(value):
        return "∞" if value > 0 else "−∞" if value < 0 else "undefined"
    scaled = value * unit.factor
    if unit == BLOCK:
        return tiles.shown(int(value))
    if unit.digits == 0 or scaled == 0:
        return _grouped(scaled, 0)
    magnitude = math.floor(math.log10(abs(scaled)))
    if unit.digits is None:
        text = _grouped(scaled, max(2 - magnitude, 0))
        return text.rstrip("0").rstrip(".") if "." in text else text
    if not -4 <= magnitude < 9:
        mantissa, exponent = f"{scaled:.{unit.digits - 1}e}".split("e")
        return _minus(f"{mantissa}×10{str(int(exponent)).translate(_RAISED)}")
    decimals = unit.digits - 1 - magnitude
    if like != value and like * unit.factor != 0 and math.isfinite(like):
        # A bound has at most two more digits than its value: 10 000 next to 1.23 needs no decimals.
        wanted = unit.digits - 1 - math.floor(math.log10(abs(like * unit.factor)))
        decimals = min(wanted, decimals + 2)
    if unit == TIMES and value != 1 and abs(value - 1) < 0.03:
        decimals = 4  # tells a ratio from the limits of "same", 1/1.02 and 1.02, and from 1
    return _grouped(scaled, max(decimals, 0))


def _grouped(scaled: float, decimals: int) -> str:
    """Group numbers of five and more digits by thousands: 2048, but 17 180."""
    group = "," if abs(scaled) >= 1e4 else ""
    return _minus(f"{scaled:z{group}.{decimals}f}".replace(",", "\u202f"))


def _minus(text: str) -> str:
    return text.replace("-", "−")
