"""The study's tables as CSV files, written and read as the schema declares."""

import csv
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.schema import TABLES, Kind, column
from base.errors import StudyError
from base.files import write_atomic
from base.paths import MAKE_REPORT

_DTYPES: dict[Kind, str] = {"text": "str", "flag": "boolean", "count": "Int64", "number": "float64"}


_REMEDY = f"delete it and make it again with {MAKE_REPORT}"


class StoreError(StudyError):
    """A table is missing or unreadable; the message contains the remedy."""


class Store:
    """The tables in a folder, each read on first use.

    ``store["summary"]`` is a data frame with the columns and types of `analysis.schema`: text,
    boolean, Int64 and float64; a blank cell is NA. Rows count from 0 and are the frame's index.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self._frames: dict[str, pd.DataFrame] = {}

    def __getitem__(self, name: str) -> pd.DataFrame:
        """Return a table; raise StoreError naming a missing or unreadable file."""
        if name not in self._frames:
            self._frames[name] = _read(self.folder / f"{name}.csv", name)
        return self._frames[name]

    def bytes(self, name: str) -> bytes:
        """Return the bytes of a table's file; raise StoreError if it is missing."""
        path = self.folder / f"{name}.csv"
        try:
            return path.read_bytes()
        except OSError:
            raise _missing(path) from None


def _missing(path: Path) -> StoreError:
    return StoreError(f"{path} is missing; make it with {MAKE_REPORT}")


def _read(path: Path, name: str) -> pd.DataFrame:
    types = {each: _DTYPES[column(name, each).kind] for each in TABLES[name].columns}
    try:
        frame = pd.read_csv(path, dtype=types, keep_default_na=False, na_values=[""])
    except OSError:
        raise _missing(path) from None
    except (ValueError, TypeError, UnicodeDecodeError) as error:
        raise StoreError(
            f"{path} cannot be read ({' '.join(str(error).split())}); {_REMEDY}"
        ) from None
    if list(frame) != list(types):
        strange = sorted(set(frame) ^ set(types)) or ["their order"]
        raise StoreError(
            f"{path} has other columns than this version writes ({strange[0]}); {_REMEDY}"
        )
    _check_cells(path, len(types))
    return frame


def _check_cells(path: Path, count: int) -> None:
    """Raise StoreError for a row without `count` cells: pandas would fill up short rows."""
    if not path.read_bytes().endswith(b"\n"):
        raise StoreError(f"{path} is truncated; {_REMEDY}")
    with path.open(newline="") as file:
        rows = csv.reader(file)
        for row in rows:
            if row and len(row) != count:
                cells = f"{len(row)} cells instead of {count} in line {rows.line_num}"
                raise StoreError(f"{path} has {cells}; {_REMEDY}")


def write(frames: Mapping[str, pd.DataFrame], folder: Path) -> None:
    """Write every table of the schema to `folder` as CSV; a missing value is a blank cell.

    Numbers have six significant digits, since no interval is narrower and more digits are noise
    that does not compress; whole numbers keep all digits. Raise ValueError if frames and schema
    differ in tables or columns (a bug).
    """
    if set(frames) != set(TABLES):
        raise ValueError(f"tables not in both: {sorted(set(frames) ^ set(TABLES))}")
    for name, table in TABLES.items():
        frame = frames[name]
        if list(frame) != list(table.columns):
            raise ValueError(f"{name}: columns {list(frame)}, declared: {list(table.columns)}")
        shown = {c: _significant(frame[c]) for c in frame.select_dtypes("float").columns}
        write_atomic(folder / f"{name}.csv", frame.assign(**shown).to_csv(index=False))


def _significant(values: pd.Series) -> pd.Series:
    rounded = values.to_numpy(dtype=float, na_value=np.nan).copy()
    longer = np.isfinite(rounded) & (np.trunc(rounded) != rounded)
    rounded[longer] = [float(f"{value:.5e}") for value in rounded[longer].tolist()]
    return pd.Series(rounded, values.index)
