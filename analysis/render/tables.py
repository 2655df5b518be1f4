"""Tables of the page: row numbers and column names in the markup say where each cell is from.

Tables without rows and columns without values are omitted, so captions are true for any recordings.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import jinja2
import pandas as pd
from markupsafe import Markup, escape

from analysis.data.devices import Device, slug
from analysis.domain import CEILINGS, PUBLISHED, TREE
from analysis.render import numbers
from analysis.render.query import Row, Rows
from analysis.schema import Unit, column, interval_columns

Caller = Callable[[], str] | None
SOURCE_TABLES = "source_tables"  # in this table, published rows keep the digits of the source
# Larger tables show only the GPU in focus.
MOST_ROWS, MOST_COLUMNS = 400, 8
_MOST_WHOLE = 30  # a table with more rows scrolls
_ONLY = Markup(" The table shows <code>{}</code>; the CSV contains the other GPUs.")
# Columns that name the GPU of a row; a table uses the first of them that it has.
_OWNERS = ("gpu", "source", "recording")
_TRUTH = {True: "yes", False: "no", None: numbers.ABSENT}
# Columns of names in a fixed-width font, and those of them that also show the GPU's mark.
_MARKED = {"gpu", "recording", "source"}
_TITLES = {"bound": CEILINGS, "limited_by": CEILINGS, "host_memory": numbers.LOCATION_TITLES}
_CODE = {"variant", "after", "after_variant", "build", "architecture"} | _MARKED


@dataclass(frozen=True)
class _Cell:
    """A cell of a table in the page, or a heading.

    `at`: its place, for a heading its column; empty if row and heading imply the place, or if the
    column is joined. `name`: for a heading, the name of the column. `small`: the interval of the
    value. `mark`: the mark of its GPU, such as "SIMULATED".
    """

    text: str
    unit: str = ""
    at: str = ""
    is_number: bool = False
    is_code: bool = False
    small: str = ""
    mark: str = ""
    name: str = ""

    def markup(self, attributes: str = "") -> str:
        """Return the cell as HTML ``td``, with these further attributes."""
        text = str(escape(numbers.visible(self.text)))
        if self.is_code:
            text = f"<code>{text}</code>"
        if self.mark:
            text += f' <mark class="badge simulated">{escape(self.mark)}</mark>'
        if self.at:
            unit = f' data-unit="{self.unit}"' if self.unit else ""
            text = f'<data data-at="{self.at}"{unit}>{text}</data>'
        if self.small:
            text += f"<small>{self.small}</small>"
        if self.is_number:
            attributes += ' class="n"'
        return f"<td{attributes}>{text}</td>"

    def heading(self, attributes: str = "") -> str:
        """Return the cell as HTML ``th`` of a column, with these further attributes."""
        if self.name:
            attributes = f' data-column="{self.at}"{attributes}'
        if self.is_number:
            attributes += ' class="n"'
        unit = f' <span class="unit">{self.unit}</span>' if self.unit else ""
        return f'<th scope="col"{attributes}>{escape(numbers.visible(self.text))}{unit}</th>'


@dataclass(frozen=True)
class Tables:
    """The functions with which templates show tables.

    `template` is the frame of a table. `marks` are the marks of GPUs, such as "SIMULATED", by name.
    `attributes` returns the HTML attributes of a column by its name, because columns of other
    baselines are hidden.
    """

    template: jinja2.Template
    marks: Mapping[str, str]
    focus: Device | None = None
    attributes: Callable[[str], str] = lambda _: ""

    def table(
        self,
        rows: Rows,
        columns: str,
        title: str,
        caller: Caller = None,
        units: Mapping[str, Unit] | None = None,
    ) -> Markup:
        """Return a table of rows as a figure: its title, the caption from `caller`, the CSV's name.

        `columns` are separated by spaces; ``total_s±`` also shows the interval. `units` override
        the schema's units. With more than `MOST_ROWS` rows, only rows of the GPU in focus are
        shown, with a note in the caption.
        """
        only = ""
        if self.focus and len(rows) > MOST_ROWS:
            only = self.focus.label
            rows = Rows(rows.table, rows.frame[_is_of(rows.frame, self.focus)])
        names = [(name.removesuffix("±"), name.endswith("±")) for name in columns.split()]
        names = [(name, wide) for name, wide in names if not rows.frame[name].isna().all()]
        declared = {name: column(*rows.origin(name)) for name, _ in names}
        shown = {name: (units or {}).get(name) or each.unit for name, each in declared.items()}
        heads = [
            _Cell(
                _heading(rows, name),
                shown[name].name,
                "" if name in rows.joined else name,
                _is_number(*rows.origin(name)),
                name=name,
            )
            for name in declared
        ]
        lines = [
            (row.place[1], [_placed(row, *name, shown[name[0]], self.marks) for name in names])
            for row in rows
        ]
        return self._framed(rows.table, title, caller, heads, lines, only, _owner(rows, shown))

    def pivot(
        self, rows: Rows, index: str, across: str, values: str, title: str, caller: Caller = None
    ) -> Markup:
        """Return a table with one row per `index` and one column per value of `across`.

        Cells show the column `values`, as in `table`. With more than `MOST_COLUMNS` columns, only
        the column of the GPU in focus is shown, with a note in the caption.
        """
        name, wide = values.removesuffix("±"), values.endswith("±")
        headed, only = rows.values(across), ""
        if self.focus and len(headed) > MOST_COLUMNS:
            only = self.focus.label
            headed = [each for each in headed if each in (only, self.focus.recording)]
        unit = column(rows.table, name).unit
        texts = (f"{self.marks.get(each, '')} {each}".strip() for each in headed)
        heads = [_Cell(column(rows.table, index).heading), *(_Cell(t, unit.name) for t in texts)]
        placed: dict[object, _Cell] = {}
        for row in rows.known(name):
            at = " ".join(map(str, (*row.place, name)))
            cell = _cell(row, name, wide, unit, {})
            said = unit.name if cell.is_number else ""
            placed[row[index], row[across]] = replace(cell, at=at, unit=said)
        absent = _Cell(numbers.ABSENT)
        lines = [
            (None, [_Cell(str(key)), *(placed.get((key, each), absent) for each in headed)])
            for key in rows.values(index)
        ]
        owner = _owner(rows, (index, across))
        return self._framed(rows.table, title, caller, heads, lines, only, owner)

    def _framed(
        self,
        csv: str,
        title: str,
        caller: Caller,
        heads: Sequence[_Cell],
        lines: Sequence[tuple[int | None, Sequence[_Cell]]],
        only: str,
        owner: str = "",
    ) -> Markup:
        if not lines:
            return Markup("")
        attributes = [str(self.attributes(head.name)) for head in heads]
        content = {
            "title": title,
            "caption": Markup(caller()) if caller else "",
            "heads": Markup("".join(map(_Cell.heading, heads, attributes))),
            "body": Markup("\n".join(_line(*line, attributes) for line in lines)),
            "of": f" ({numbers.visible(owner)})" if owner else "",
            "only": _ONLY.format(only) if only else "",
            "size": " whole" if len(lines) <= _MOST_WHOLE else "",
        }
        made = self.template.render(content, id=slug(numbers.visible(title)), csv=csv)
        return Markup(made.strip())


def _owner(rows: Rows, shown: Collection[str]) -> str:
    """Return the GPU or recording of all rows, unless a column shows it; empty for several."""
    name = _owner_of(rows.frame)
    owners = rows.values(name) if name and name not in shown else []
    return str(owners[0]) if len(owners) == 1 else ""


def _owner_of(frame: pd.DataFrame) -> str:
    return next((name for name in _OWNERS if name in frame), "")


def _line(number: int | None, cells: Sequence[_Cell], attributes: Sequence[str]) -> str:
    row = "" if number is None else f' data-row="{number}"'
    return f"<tr{row}>{''.join(map(_Cell.markup, cells, attributes))}</tr>"


def _is_of(frame: pd.DataFrame, focus: Device) -> pd.Series:
    owner = _owner_of(frame)
    if not owner:
        return pd.Series(True, frame.index)
    of_card = frame[owner].isin([focus.label, PUBLISHED, TREE])
    of_host = pd.Series(True, frame.index)
    if "recording" in frame:
        of_host = frame["recording"].isin([focus.recording, PUBLISHED, TREE])
        of_host |= frame["recording"].isna()
    return of_card | (frame[owner].isna() & of_host)


def _heading(rows: Rows, name: str) -> str:
    """Return the heading of a column; for a joined column, with the value that is its prefix."""
    table_name, original = rows.origin(name)
    value = name.removesuffix(original).strip("_").replace("_", " ")
    return ", ".join(filter(None, (column(table_name, original).heading, value)))


def _is_number(table_name: str, name: str) -> bool:
    return column(table_name, name).kind in ("count", "number")


def _cell(row: Row, name: str, wide: bool, unit: Unit, marks: Mapping[str, str]) -> _Cell:
    value, (table_name, _, original) = row[name], row.at(name)
    if _is_number(table_name, original):
        if table_name == SOURCE_TABLES and row["source"] == PUBLISHED:
            unit = replace(unit, digits=None)  # published values keep their printed digits
        text = numbers.ABSENT if value is None else numbers.text(row, name, unit)
        return _Cell(text, small=_bounds(row, name, unit) if wide else "", is_number=True)
    if value is None or isinstance(value, bool):
        return _Cell(_TRUTH[value])
    text = numbers.visible(_TITLES.get(original, {}).get(str(value), str(value)))
    mark = marks.get(text, "") if original in _MARKED else ""
    return _Cell(text, is_code=original in _CODE, mark=mark)


def _placed(row: Row, name: str, wide: bool, unit: Unit, marks: Mapping[str, str]) -> _Cell:
    """Return a cell; if its column is joined, the cell names its own place."""
    cell, at = _cell(row, name, wide, unit, marks), row.at(name)
    if at == (*row.place, name) or row[name] is None:
        return cell
    return replace(cell, at=" ".join(map(str, at)), unit=unit.name if cell.is_number else "")


def _bounds(row: Row, name: str, unit: Unit) -> str:
    low, high = (row[bound] for bound in interval_columns(name))
    if low is None or high is None or row[name] is None:
        return ""
    texts = [numbers.show(float(bound), unit, float(row[name])) for bound in (low, high)]
    return "–".join(texts)
