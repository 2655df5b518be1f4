"""Building tables of the schema from frames or rows."""

from collections.abc import Iterable, Mapping

import pandas as pd

from analysis.schema import TABLES, column


def stacked(name: str, frames: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Return concatenated frames as the table `name` of the schema.

    The table has exactly the schema's columns; missing columns are blank, and counts are Int64.
    """
    columns = list(TABLES[name].columns)
    table = concatenated([pd.DataFrame(columns=columns), *frames])
    table = table if list(table) == columns else table.reindex(columns=columns)
    counts = {each for each in columns if column(name, each).kind == "count"}
    counts -= {each for each, kind in table.dtypes.items() if kind == "Int64"}
    return table.astype(dict.fromkeys(counts, "Int64")) if counts else table


def from_rows(name: str, rows: Iterable[Mapping[str, object]]) -> pd.DataFrame:
    """Return rows as the table `name` of the schema; see `stacked`."""
    return stacked(name, [pd.DataFrame(list(rows))])


def concatenated(frames: list[pd.DataFrame]) -> pd.DataFrame:
    """Return concatenated frames; the first one may be empty, but defines the columns."""
    filled = [frame for frame in frames if not frame.empty]
    if len(filled) == 1:
        return filled[0].reset_index(drop=True)
    return pd.concat(filled, ignore_index=True) if filled else frames[0]
