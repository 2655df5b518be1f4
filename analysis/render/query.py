"""Rows of the tables as templates ask for them, each knowing where it stands."""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from analysis.data.store import Store


class Row:
    """One row of a table: ``row.total_s`` or ``row["total_s"]`` is a value, None where blank."""

    def __init__(self, table: str, number: int, values: dict[str, Any]) -> None:
        self._table, self._number, self._values = table, number, values

    @property
    def place(self) -> tuple[str, int]:
        """The table and the number of the row in it."""
        return self._table, self._number

    def __getitem__(self, column: str) -> Any:
        """Return a value; raises KeyError for a column that the table lacks."""
        return self._values[column]

    def get(self, column: str) -> Any:
        """Return a value, None where it is blank or the table has no such column."""
        return self._values.get(column)

    def __contains__(self, column: str) -> bool:
        """Tell whether the table has this column."""
        return column in self._values


class Rows:
    """Some rows of a table, in order; `filters` are the equalities that chose them, if only those.

    Every method returns other rows and leaves these as they are.
    """

    def __init__(
        self, table: str, frame: pd.DataFrame, filters: dict[str, Any] | None = None
    ) -> None:
        self.table, self.frame, self.filters = table, frame, filters

    def where(self, **equal: Any) -> "Rows":
        """Return the rows whose columns are `equal`; a list allows several, None is blank."""
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
        return Rows(self.table, self.frame[chosen], filters)

    def known(self, *columns: str) -> "Rows":
        """Return the rows in which none of `columns` is blank."""
        return self._some(self.frame.dropna(subset=list(columns)))

    def between(self, column: str, low: float | None = None, high: float | None = None) -> "Rows":
        """Return the rows whose `column` lies in the closed interval."""
        cells = self.frame[column].astype(float)
        inside = cells.ge(-float("inf") if low is None else low)
        return self._some(self.frame[inside & cells.le(float("inf") if high is None else high)])

    def sort(self, *columns: str, reverse: bool = False) -> "Rows":
        """Return the rows by `columns`; equal ones keep their order."""
        return self._some(
            self.frame.sort_values(list(columns), ascending=not reverse, kind="stable")
        )

    def head(self, count: int) -> "Rows":
        """Return the first `count` rows."""
        return self._some(self.frame.head(count))

    def best_of(self, column: str, *by: str, least: bool = False) -> "Rows":
        """Return for each combination of `by` the row with the largest (or least) `column`."""
        ordered = self.frame.dropna(subset=[column]).sort_values(
            column, ascending=least, kind="stable"
        )
        return self._some(ordered.drop_duplicates(list(by)).sort_index())

    def most(self, column: str) -> Row | None:
        """Return the row with the largest value of `column`; None where there is none."""
        cells = self.frame[column].dropna()
        return None if cells.empty else self._row(cells.idxmax())

    def least(self, column: str) -> Row | None:
        """Return the row with the least value of `column`; None where there is none."""
        cells = self.frame[column].dropna()
        return None if cells.empty else self._row(cells.idxmin())

    def values(self, column: str) -> list[Any]:
        """Return the distinct values of `column` in order of appearance, blank ones left out."""
        return [_plain(value) for value in self.frame[column].dropna().unique()]

    @property
    def first(self) -> Row | None:
        """The first row; None where there is none."""
        return next(iter(self), None)

    def __iter__(self) -> Iterator[Row]:
        return (self._row(index) for index in self.frame.index)

    def __len__(self) -> int:
        return len(self.frame)

    def _some(self, frame: pd.DataFrame) -> "Rows":
        return Rows(self.table, frame)

    def _row(self, index: Any) -> Row:
        values = {name: _plain(value) for name, value in self.frame.loc[index].items()}
        return Row(self.table, int(index), values)


def _plain(value: Any) -> Any:
    """Return a cell as Python has it: None for a blank one."""
    if pd.isna(value):
        return None
    return value.item() if hasattr(value, "item") else value


def rows(store: Store, table: str) -> Rows:
    """Return all rows of a table."""
    return Rows(table, store[table], {})
