"""Reading the published times (Tables 1–6 of source V) and the numbers in the text of V."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from analysis.stats.rounding import half_unit
from base.errors import StudyError

MACHINES = {
    "e6300_gts450": "Intel Core 2 Duo E6300 + GeForce GTS 450",
    "i7_4770_gtx770": "Intel Core i7-4770 + GeForce GTX 770",
}
_TYPES = {
    "table": "int64",
    "machine": "string",
    "implementation": "string",
    "n": "int64",
    "block_size": "Int64",
    "time_s": "float64",
    "gflops_printed": "float64",
    "note": "string",
}
_STATEMENT = {"statement": "string", "n": "int64", "value": "float64"}
_STATEMENT |= {"factor": "float64", "said": "string"}


@dataclass(frozen=True)
class Statement:
    """A number in V, in SI units, for size n; `rounding` is half a unit of its last digit."""

    n: int
    value: float
    rounding: float


def read(path: Path) -> pd.DataFrame:
    """Return a row per published time: time_s in s, gflops_printed in 10⁹ FLOP/s as printed."""
    return read_csv(path, _TYPES)


def read_statements(path: Path) -> Mapping[str, Statement]:
    """Return the numbers in the text of V by name."""
    rows = read_csv(path, _STATEMENT).itertuples(index=False)
    return {
        row.statement: Statement(row.n, row.value * row.factor, half_unit(row.value) * row.factor)
        for row in rows
    }


def read_csv(path: Path, types: Mapping[str, str]) -> pd.DataFrame:
    """Return a CSV file of the sources; a blank is NA.

    Raise StudyError if it is unreadable, has other columns, or contains a text instead of a number.
    """
    try:
        frame = pd.read_csv(path, dtype=types, keep_default_na=False, na_values=[""])
        if list(frame) != list(types):
            raise ValueError(f"the columns are {list(frame)}; they must be {list(types)}")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise StudyError(f"{path}: {reason}; restore it from version control") from None
    return frame
