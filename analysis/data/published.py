"""Read and check the published times (Tables 1–6 of V) and numbers in the text of V."""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from analysis.stats.rounding import half_unit
from base.errors import StudyError

MACHINES = {
    "e6300_gts450": "Intel Core 2 Duo E6300 + GeForce GTS 450",
    "i7_4770_gtx770": "Intel Core i7-4770 + GeForce GTX 770",
}
# Implementations, and whether they have a block size.
_IMPLEMENTATIONS = {
    "cpu_naive": False,
    "gpu_naive": False,
    "gpu_buffered_column": False,
    "gpu_buffered_row": False,
    "gpu_block": True,
    "gpu_block_unroll4": True,
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
COLUMNS = list(_TYPES)
_KEY = ("table", "implementation", "n", "block_size")
_STATEMENT = ["statement", "n", "value", "factor", "said"]
_STATEMENTS = (
    "best_flop_per_s",
    "speedup_over_cpu",
    "tuned_cpu_speedup",
    "link_bytes_per_s",
    "tuned_cpu_least_flop_per_s",
    "tuned_cpu_most_flop_per_s",
)


@dataclass(frozen=True)
class Statement:
    """A number in SI units for matrices of size n; `rounding` is half a unit of its last digit."""

    n: int
    value: float
    rounding: float


def read(path: Path | str) -> pd.DataFrame:
    """Return the published times, with the columns `COLUMNS`.

    time_s is in seconds, gflops_printed in 10⁹ flop/s as printed (NaN where nothing is).
    Raise StudyError naming file, row (the header is row 1) and column of a wrong value.
    """
    path = Path(path)
    rows = []
    seen: dict[tuple[str, ...], int] = {}
    for number, row in numbered_rows(path, COLUMNS):
        rows.append(row)
        problem = _problem(row)
        if problem is None:
            key = tuple(row[column] for column in _KEY)
            first = seen.setdefault(key, number)
            if first != number:
                problem = "table", f"repeats row {first}; keep one of them"
        if problem is not None:
            raise StudyError(f"{path}: row {number}, column {problem[0]}: {problem[1]}")
    frame = pd.DataFrame(rows, columns=COLUMNS, dtype="string").replace("", pd.NA)
    frame["gflops_printed"] = frame["gflops_printed"].astype("Float64")
    return frame.astype(_TYPES)


def read_statements(path: Path) -> Mapping[str, Statement]:
    """Return the numbers in the text by name; raise StudyError naming a wrong or missing row."""
    by_name: dict[str, Statement] = {}
    for number, row in numbered_rows(path, _STATEMENT):
        values = [row["n"], row["value"], row["factor"]]
        if not (_is_size(values[0]) and all(map(_is_positive, values))):
            raise StudyError(f"{path}: row {number}: n, value and factor must be numbers above 0")
        value, scale = float(row["value"]), float(row["factor"])
        rounding = half_unit(value) * scale
        by_name[row["statement"]] = Statement(int(row["n"]), value * scale, rounding)
    missing = [name for name in _STATEMENTS if name not in by_name]
    if missing:
        raise StudyError(f"{path}: row {missing[0]!r} is missing; restore the file from git")
    return by_name


def numbered_rows(path: Path, columns: list[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the rows of a CSV file of the sources as text, with their numbers (header: row 1).

    Raise StudyError if the file is unreadable or a row does not have exactly `columns`.
    """
    try:
        header, *body = list(csv.reader(path.read_text(encoding="utf-8").splitlines())) or [[]]
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not valid UTF-8"
        raise StudyError(f"{path}: {reason}; restore it from version control") from None
    if header != columns:
        raise StudyError(f"{path}: row 1: the columns are {header}; they must be {columns}")
    for number, line in enumerate(body, start=2):
        if len(line) != len(columns):
            raise StudyError(
                f"{path}: row {number}: has {len(line)} values; it must have {len(columns)}"
            )
        yield number, dict(zip(columns, line, strict=True))


def _problem(row: dict[str, str]) -> tuple[str, str] | None:
    """Return (column, problem) of the first wrong value of a row, None for a valid row."""
    has_block = _IMPLEMENTATIONS.get(row["implementation"])
    size, block, rate = "must be a whole number above 0", row["block_size"], row["gflops_printed"]
    fits = _is_size(block) if has_block else block == ""
    checks = [
        ("table", row["table"] in set("123456"), "must be 1 to 6"),
        ("machine", row["machine"] in MACHINES, f"must be one of {', '.join(MACHINES)}"),
        ("implementation", has_block is not None, f"must be one of {', '.join(_IMPLEMENTATIONS)}"),
        ("n", _is_size(row["n"]), size),
        ("block_size", fits, size if has_block else "must be empty"),
        ("time_s", _is_positive(row["time_s"]), "must be a number of seconds above 0"),
        ("gflops_printed", rate == "" or _is_positive(rate), "must be a number above 0 or empty"),
    ]
    wrong = ((column, rule) for column, valid, rule in checks if not valid)
    return next(((column, f"is {row[column]!r}; it {rule}") for column, rule in wrong), None)


def _is_size(text: str) -> bool:
    return text.isascii() and text.isdigit() and int(text) > 0


def _is_positive(text: str) -> bool:
    try:
        return 0 < float(text) < float("inf")
    except ValueError:
        return False
