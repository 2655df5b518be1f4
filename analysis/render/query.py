"""Selecting table rows in templates; each value keeps its table, row number and column."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import pandas as pd

from analysis.data.best import fastest
from analysis.data.store import Store


class Place(NamedTuple):
    """Where a value is: its table, row number and column."""

    table: str
    row: int
    column: str


class Joined(NamedTuple):
    """A column joined from another table: its table, its name, and row numbers by index."""

    table: str
    column: str
    rows: pd.Series


class Row:
    """One row of a table: ``row.total_s`` or ``row["total_s"]`` is a value, None if blank."""

    def __init__(
        self,
        table: str,
        number: int,
        values: dict[str, Any],
        joined: Mapping[str, Joined] = MappingProxyType({}),
    ) -> None:
        self._table, self._number, self._values, self._joined = table, number, values, joined

    @property
    def place(self) -> tuple[str, int]:
        """The table and the row number."""
        return self._table, self._number

    def at(self, column: str) -> Place:
        """Return where a value is; the row is -1 for a blank that has no row."""
        other = self._joined.get(column)
        if other is None:
            return Place(self._table, self._number, column)
        number = other.rows[self._number]
        return Place(other.table, -1 if pd.isna(number) else int(number), other.column)

    def __getitem__(self, column: str) -> Any:
        """Return a value; raise KeyError for an unknown column."""
        return self._values[column]

    def get(self, column: str) -> Any:
        """Return a value; None if it is blank or the column is unknown."""
        return self._values.get(column)

    def __contains__(self, column: str) -> bool:
        """Return whether the table has this column."""
        return column in self._values


class Rows:
    """Rows of a table, in order; `filters` are their equalities if only `where` selected them.

    `joined` are the columns that `beside` added.
    """

    def __init__(
        self,
        table: str,
        frame: pd.DataFrame,
        filters: dict[str, Any] | None = None,
        joined: Mapping[str, Joined] = MappingProxyType({}),
    ) -> None:
        self.table, self.frame, self.filters, self.joined = table, frame, filters, joined

    def where(self, **equal: Any) -> "Rows":
        """Return the rows with these values; a list allows several values, None means blank."""
        chosen = pd.Series(True, self.frame.index)
        for column, value in equal.items():
            cells = self.frame[column]
            if value is None:
                chosen &= cells.isna()
            elif isinstance(value, list | tuple | set):
                chosen &= cells.isin(list(value))
            else:
                chosen &= (cells == value).fillna(False).astype(bool)
        filters = None if self.filters is None else {**self.filters, **equal}
        if self.joined.keys() & equal.keys():
            filters = None
        return Rows(self.table, self.frame[chosen], filters, self.joined)

    def beside(self, other: "Rows", on: str, **values: Sequence[str]) -> "Rows":
        """Return the rows with added columns of those rows of `other` that are equal in `on`.

        `values` names one column of `other` and some of its values; for each value, at most one row
        of `other` may match. Added columns have the value as prefix: ``speedup`` beside
        ``baseline=["cublas"]`` is ``cublas_speedup``.
        """
        ((by, prefixes),) = values.items()
        keys = on.split()
        added = [name for name in other.frame if name not in (*keys, by)]
        joined, columns = dict(self.joined), {}
        for value in prefixes:
            part = other.frame[(other.frame[by] == value).fillna(False)]
            part = part[[*keys, *added]].assign(_row=part.index)
            part = self.frame[keys].merge(part, how="left", on=keys, validate="m:1")
            part = part.set_axis(self.frame.index)
            for name in added:
                wide = f"{value.replace('-', '_')}_{name}"
                columns[wide], joined[wide] = part[name], Joined(other.table, name, part["_row"])
        frame = pd.concat([self.frame, pd.DataFrame(columns)], axis=1)
        return Rows(self.table, frame, self.filters, joined)

    def known(self, *columns: str) -> "Rows":
        """Return the rows without blanks in `columns`."""
        return self._some(self.frame.dropna(subset=list(columns)))

    def between(self, column: str, low: float | None = None, high: float | None = None) -> "Rows":
        """Return the rows whose `column` is from `low` to `high`, both included."""
        cells = self.frame[column].astype(float)
        inside = cells.ge(-float("inf") if low is None else low)
        return self._some(self.frame[inside & cells.le(float("inf") if high is None else high)])

    def sort(self, *columns: str, reverse: bool = False) -> "Rows":
        """Return the rows sorted by `columns`; rows that are equal in these keep their order."""
        return self._some(self.frame.sort_values([*columns], ascending=not reverse, kind="stable"))

    def distinct(self, *columns: str) -> "Rows":
        """Return the first row of each combination of `columns`."""
        return self._some(self.frame.drop_duplicates([*columns]))

    def head(self, count: int) -> "Rows":
        """Return the first `count` rows."""
        return self._some(self.frame.head(count))

    def best_of(self, column: str, *by: str, least: bool = False) -> "Rows":
        """Return the row with the largest (or least) `column` for each combination of `by`."""
        best = fastest(self.frame, column, by, most=not least)
        return self._some(self.frame.loc[best.index.sort_values()])

    def most(self, column: str) -> Row | None:
        """Return the row with the largest `column`; None without values."""
        return self.best_of(column).first

    def least(self, column: str) -> Row | None:
        """Return the row with the smallest `column`; None without values."""
        return self.best_of(column, least=True).first

    def values(self, column: str) -> list[Any]:
        """Return the distinct values of `column` in order of appearance, without blanks."""
        return [_plain(value) for value in self.frame[column].dropna().unique()]

    @property
    def first(self) -> Row | None:
        """The first row; None without rows."""
        return next(iter(self.head(1)), None)

    def __iter__(self) -> Iterator[Row]:
        columns = [[_plain(value) for value in self.frame[name]] for name in self.frame]
        for index, *values in zip(self.frame.index, *columns, strict=True):
            named = dict(zip(self.frame, values, strict=True))
            yield Row(self.table, int(index), named, self.joined)

    def __len__(self) -> int:
        return len(self.frame)

    def _some(self, frame: pd.DataFrame) -> "Rows":
        return Rows(self.table, frame, None, self.joined)

    def origin(self, column: str) -> tuple[str, str]:
        """Return the table and the column that a column comes from."""
        other = self.joined.get(column)
        return (other.table, other.column) if other else (self.table, column)


def _plain(value: Any) -> Any:
    if pd.isna(value):
        return None
    return value.item() if hasattr(value, "item") else value


def rows(store: Store, table: str) -> Rows:
    """Return all rows of a table."""
    return Rows(table, store[table], {})
