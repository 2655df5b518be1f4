"""Tables in the page: cells are located by the row numbers and column names in the markup."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pandas as pd
from markupsafe import Markup, escape

from analysis.data.devices import Device, slug
from analysis.domain import PUBLISHED, TREE
from analysis.render import numbers
from analysis.render.query import Row, Rows
from analysis.schema import Unit, column, interval_columns

Caller = Callable[[], str]
# Published rows of these tables keep the digits of the source.
SOURCE_TABLES = ("table1", "table2", "table3", "table4", "table5", "table6")
# Larger tables show only the GPU in focus.
MOST_ROWS, MOST_COLUMNS = 400, 8
_NOTE = " The table shows only <code>{}</code>; the CSV contains the other GPUs."
# Columns that name the GPU of a row; a table uses the first of them that it has.
_OWNERS = (("gpu",), ("gpu_a", "gpu_b"), ("source",), ("recording",))
_TRUTH = {True: "yes", False: "no", None: numbers.ABSENT}
# Columns of names, in a fixed-width font.
_CODE = {
    "variant",
    "after",
    "after_variant",
    "build",
    "architecture",
    "next_variant",
    "own_variant",
}


def table(
    rows: Rows,
    columns: str,
    title: str,
    caller: Caller | None = None,
    units: Mapping[str, Unit] | None = None,
    marks: Mapping[str, str] | None = None,
    focus: Device | None = None,
) -> Markup:
    """Return a table of rows: a figure with title, caption from `caller`, and name of the CSV.

    `columns` are separated by spaces; ``total_s±`` also shows the interval. `units` override those
    of the schema. `marks` are the marks of GPUs by name, such as "SIMULATED". With more than
    `MOST_ROWS` rows, only those of the GPU in `focus` are shown, with a note in the caption.
    """
    note = Markup("")
    if focus and len(rows) > MOST_ROWS:
        rows = Rows(rows.table, rows.frame[_is_of(rows.frame, focus)])
        note = Markup(_NOTE).format(focus.label)
    names = [(name.removesuffix("±"), name.endswith("±")) for name in columns.split()]
    shown = {name: _unit(rows.table, name, units) for name, _ in names}
    head = Markup("").join(_head(rows.table, name, shown[name]) for name, _ in names)
    body = Markup("\n").join(
        Markup('<tr data-row="{}">{}</tr>').format(
            row.place[1],
            Markup("").join(
                _cell(row, name, wide, shown[name], marks or {}) for name, wide in names
            ),
        )
        for row in rows
    )
    return _framed(rows.table, title, caller, head, body, note)


def _is_of(frame: pd.DataFrame, focus: Device) -> pd.Series:
    """Return which rows are for a GPU or its host, or for no GPU (sources, source tree)."""
    owner = next((name for name in _OWNERS if name[0] in frame), ())
    if not owner:
        return pd.Series(True, frame.index)
    own = [focus.label, PUBLISHED, TREE]
    of_card = frame[list(owner)].isin(own).any(axis=1)
    of_host = pd.Series(True, frame.index)
    if "recording" in frame:
        of_host = frame["recording"].isin([focus.recording, PUBLISHED, TREE])
        of_host |= frame["recording"].isna()
    return of_card | (frame[list(owner)].isna().all(axis=1) & of_host)


def pivot(
    rows: Rows,
    index: str,
    across: str,
    values: str,
    title: str,
    caller: Caller | None = None,
    marks: Mapping[str, str] | None = None,
    focus: Device | None = None,
) -> Markup:
    """Return a table with one row per `index` and one column per value of `across`.

    Cells show the column `values`, as in `table`. With more than `MOST_COLUMNS` columns, only that
    of the GPU in `focus` is shown, with a note in the caption.
    """
    name, wide = values.removesuffix("±"), values.endswith("±")
    heads, note = rows.values(across), Markup("")
    if focus and len(heads) > MOST_COLUMNS:
        heads = [head for head in heads if head in (focus.label, focus.recording)]
        note = Markup(_NOTE).format(focus.label)
    unit = column(rows.table, name).unit
    cells = {(row[index], row[across]): row for row in rows}
    marked = [
        f"{(marks or {}).get(head, '')} {numbers.visible(str(head))}".strip() for head in heads
    ]
    head = Markup('<th scope="col">{}</th>').format(column(rows.table, index).heading)
    said = _unit_of_head(unit)
    head += Markup("").join(
        Markup('<th scope="col">{}{}</th>').format(text, said) for text in marked
    )
    lines = []
    for key in rows.values(index):
        line = Markup("<td>{}</td>").format(numbers.visible(str(key)))
        for across_key in heads:
            row = cells.get((key, across_key))
            if row is None or row[name] is None:
                line += Markup("<td>–</td>")
            else:
                line += _free_cell(row, name, wide, unit)
        lines.append(Markup("<tr>{}</tr>").format(line))
    return _framed(rows.table, title, caller, head, Markup("\n").join(lines), note)


def _unit(table_name: str, name: str, units: Mapping[str, Unit] | None) -> Unit:
    return (units or {}).get(name) or column(table_name, name).unit


def _framed(
    table_name: str, title: str, caller: Caller | None, head: Markup, body: Markup, note: Markup
) -> Markup:
    caption = Markup(caller()) if caller and body else Markup("")
    title = numbers.visible(title)  # may contain user input
    content = Markup("<p>None.</p>")
    if body:
        content = Markup(
            '<div class="scroll" tabindex="0" role="region" aria-label="{}">'
            '<table class="sortable n-last" data-csv="{}"><thead><tr>{}</tr></thead>\n'
            "<tbody>{}</tbody></table></div>"
        ).format(title, table_name, head, body)
    return Markup(
        '<figure class="table" id="table-{}"><figcaption><strong>{}.</strong> {} '
        '<small class="csv">{}.csv</small></figcaption>\n{}</figure>'
    ).format(slug(title), title, caption + note, table_name, content)


def _head(table_name: str, name: str, unit: Unit) -> Markup:
    described = column(table_name, name)
    number = ' class="number"' if _is_number(table_name, name) else ""
    text = escape(described.heading) + _unit_of_head(unit)
    return Markup('<th scope="col" data-column="{}"{}>{}</th>').format(name, Markup(number), text)


def _unit_of_head(unit: Unit) -> Markup:
    return Markup(' <span class="unit">{}</span>').format(unit.name) if unit.name else Markup("")


def _is_number(table_name: str, name: str) -> bool:
    return column(table_name, name).kind in ("count", "number")


def _cell(row: Row, name: str, wide: bool, unit: Unit, marks: Mapping[str, str]) -> Markup:
    """Return a cell whose place is given by its row and its column."""
    if not _is_number(row.place[0], name):
        return Markup("<td>{}</td>").format(_text(row, name, marks))
    text = _number(row, name, unit)
    small = _bounds(row, name, unit) if wide else Markup("")
    return Markup('<td class="number"{}>{}{}</td>').format(
        _sorted_by(row[name], unit, text, small), text, small
    )


def _sorted_by(value: Any, unit: Unit, text: str, small: Markup) -> Markup:
    """Return the sort key of a cell whose text is not a plain number."""
    if small or not text.replace(".", "", 1).isdigit():
        key = "" if value is None else f"{float(value) * unit.factor:.6g}"
        return Markup(' data-sort="{}"').format(key)
    return Markup("")


def _free_cell(row: Row, name: str, wide: bool, unit: Unit) -> Markup:
    """Return a cell with its place in its own markup."""
    at = " ".join(map(str, (*row.place, name)))
    text: Any = _text(row, name, {})
    small: Any = ""
    said = number = Markup("")
    if _is_number(row.place[0], name):
        number = Markup(' class="number"')
        text, small = _number(row, name, unit), _bounds(row, name, unit) if wide else ""
        said = Markup(' data-unit="{}"').format(unit.name) if unit.name else said
    return Markup('<td{}><data data-at="{}"{}>{}</data>{}</td>').format(
        number, at, said, text, small
    )


def _text(row: Row, name: str, marks: Mapping[str, str]) -> Any:
    value = row[name]
    if value is None or isinstance(value, bool):
        return _TRUTH[value]
    text = numbers.visible(str(value))
    mark = marks.get(text)
    if mark and name in ("gpu", "recording", "source"):
        return Markup('<code>{}</code> <mark class="badge simulated">{}</mark>').format(text, mark)
    is_code = name in _CODE or name in ("gpu", "recording", "source")
    return Markup("<code>{}</code>").format(text) if is_code else text


def _number(row: Row, name: str, unit: Unit) -> str:
    if row.place[0] in SOURCE_TABLES and row["source"] == "published":
        unit = replace(unit, digits=None)  # the printed digits
    return numbers.ABSENT if row[name] is None else numbers.text(row, name, unit)


def _bounds(row: Row, name: str, unit: Unit) -> Markup:
    """Return the bounds of an interval in small print; empty without bounds."""
    low, high = (row[bound] for bound in interval_columns(name))
    if low is None or high is None or row[name] is None:
        return Markup("")
    texts = [numbers.show(float(bound), unit, float(row[name])) for bound in (low, high)]
    return Markup("<small>{}–{}</small>").format(*texts)
