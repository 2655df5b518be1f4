"""The published times (Tables 1–6 of V), read and checked."""

import csv
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from base.errors import StudyError

COLUMNS = [
    "table",
    "machine",
    "implementation",
    "n",
    "block_size",
    "time_s",
    "gflops_printed",
    "note",
]
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
_KEY = ("table", "implementation", "n", "block_size")


def read(path: Path | str) -> pd.DataFrame:
    """Return the published times, with the columns `COLUMNS`.

    time_s is in seconds, gflops_printed in 10⁹ flop/s as printed (NaN where nothing is).
    Raises StudyError naming file, row (the header is row 1) and column of what is wrong.
    """
    path = Path(path)
    rows = _rows(path)
    seen: dict[tuple[str, ...], int] = {}
    for number, row in enumerate(rows, start=2):
        problem = _problem(row)
        if problem is None:
            key = tuple(row[column] for column in _KEY)
            first = seen.setdefault(key, number)
            if first != number:
                problem = "table", f"the same cell stands in row {first}; keep one of them"
        if problem is not None:
            raise StudyError(f"{path}: row {number}, column {problem[0]}: {problem[1]}")
    frame = pd.DataFrame(rows, columns=COLUMNS, dtype="string").replace("", pd.NA)
    frame["gflops_printed"] = frame["gflops_printed"].astype("Float64")
    return frame.astype(_TYPES)


def numbered_rows(path: Path, what: str, fields: list[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the rows of a list that stands beside the times, with their numbers (header: row 1).

    Raises StudyError where it cannot be read, or naming the first row that has not just `fields`.
    """
    try:
        lines = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(f"{what} {path}: cannot be read ({error}); restore it") from None
    for number, line in enumerate(lines, start=2):
        if list(line) != fields or None in line.values():
            raise StudyError(f"{path}: row {number}: must have the columns {', '.join(fields)}")
        yield number, line


def _rows(path: Path) -> list[dict[str, str]]:
    """Return the rows as text; every row has exactly `COLUMNS`."""
    try:
        lines = list(csv.reader(path.read_text(encoding="utf-8").splitlines()))
    except OSError as error:
        raise StudyError(f"{path}: {error.strerror}; name the csv of the published times") from None
    except UnicodeDecodeError:
        raise StudyError(f"{path}: is no UTF-8 text; restore it from version control") from None
    header, body = (lines[0], lines[1:]) if lines else ([], [])
    if header != COLUMNS:
        raise StudyError(f"{path}: row 1: the columns are {header}; they must be {COLUMNS}")
    for number, line in enumerate(body, start=2):
        if len(line) != len(COLUMNS):
            raise StudyError(
                f"{path}: row {number}: has {len(line)} values; it must have {len(COLUMNS)}"
            )
    return [dict(zip(COLUMNS, line, strict=True)) for line in body]


def _problem(row: dict[str, str]) -> tuple[str, str] | None:
    """Return (column, what is wrong) of the first wrong value of a row, None for a sound row."""
    has_block = _IMPLEMENTATIONS.get(row["implementation"])
    checks = [
        ("table", row["table"] in set("123456"), "must be 1 to 6"),
        ("machine", row["machine"] in MACHINES, f"must be one of {', '.join(MACHINES)}"),
        ("implementation", has_block is not None, f"must be one of {', '.join(_IMPLEMENTATIONS)}"),
        ("n", _is_order(row["n"]), "must be a whole number above 0"),
        (
            "block_size",
            _is_order(row["block_size"]) if has_block else row["block_size"] == "",
            "must be a whole number above 0" if has_block else "must be empty",
        ),
        ("time_s", _is_positive(row["time_s"]), "must be a number of seconds above 0"),
        (
            "gflops_printed",
            row["gflops_printed"] == "" or _is_positive(row["gflops_printed"]),
            "must be a number above 0 or empty",
        ),
    ]
    for column, sound, rule in checks:
        if not sound:
            return column, f"is {row[column]!r}; it {rule}"
    return None


def _is_order(text: str) -> bool:
    return text.isascii() and text.isdigit() and int(text) > 0


def _is_positive(text: str) -> bool:
    try:
        return 0 < float(text) < float("inf")
    except ValueError:
        return False
