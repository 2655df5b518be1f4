"""The recording: a folder of plain files with one measurement of one host.

    provenance.json    GPUs, host, software, sources, study
    samples.csv.gz     one row per sample; column names end in SI units
    checks.csv         one row per planned cell: passed, failed or not launchable, and the reason
    builds.csv         one row per cubin: registers, shared memory, spills
    instructions.csv   number of each instruction per cubin, if a disassembler was installed
    kernels.csv.gz     one row per kernel-only sample
    energy.csv         one row per energy measurement
    pieces.csv         one row per run in pieces with one setting, and its copies
    cold_starts.csv    one row per process cold start and its first run
    ceilings.csv       one row per measurement of a ceiling of device, link or clock
    neighbours.csv     runs with and without traffic of the host's other GPUs
    counters.csv       hardware counters, added by `python -m measurement count`
    accuracy.csv       errors of products, added by `python -m measurement accuracy`
    MANIFEST.sha256    the SHA-256 of each file above, in the format of sha256sum

`write` creates the folder atomically. `read` rejects incomplete and altered recordings.
"""

import csv
import gzip
import hashlib
import json
import math
import os
import re
import shutil
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from base.files import MANIFEST
from measurement.recording.consistency import fault
from measurement.recording.files import (
    MOST_BYTES,
    PROVENANCE,
    RecordingError,
    bad,
    check_manifest,
    read_provenance,
)
from measurement.recording.schema import ALL, CELL, COLUMNS, KERNEL, TABLES, Table

__all__ = [
    "CELL",
    "KERNEL",
    "MANIFEST",
    "TABLES",
    "Recording",
    "RecordingError",
    "check_target",
    "read",
    "write",
]

# Columns whose name in memory differs from the name in the file: the file format is fixed.
_TIMED_IN_RUN = {"kernel_s": "in_run_kernel_s"}
RENAMED = dict.fromkeys(("samples.csv.gz", "cold_starts.csv", "neighbours.csv"), _TIMED_IN_RUN)
# Above this size, a table may unpack to this multiple of its packed size.
_FREE_BYTES, _MOST_RATIO = 2**20, 100
_BLOCK = 2**18  # bytes converted at once
_LONGEST_ROW = 2**16  # bytes
_MOST_TEXTS = 2**17  # different ones in a recording
# Bytes of a value in memory: a text is a pointer, a whole number has a flag. A table may take this
# multiple of its unpacked size; more means that its rows are implausibly short.
_VALUE_BYTES = {"string": 8, "Int64": 9, "float64": 8}
_MOST_TIMES = 3
_DIGITS = 16  # of the largest whole number
_GAP = -1
_OF_NUMBERS = b"0123456789.eE+-"
_REAL = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
_LONGEST_HEADER = 1000  # characters in a message


@dataclass(frozen=True)
class Recording:
    """A recording in memory; `TABLES` defines the columns and types of its frames.

    The last column `session` counts from 0: `analysis.data.sessions` merges the recordings of one
    GPU model, and `later` contains the provenance of sessions 1, 2 ...
    """

    path: Path
    provenance: dict[str, Any]
    samples: pd.DataFrame
    checks: pd.DataFrame
    builds: pd.DataFrame
    instructions: pd.DataFrame
    kernels: pd.DataFrame
    energy: pd.DataFrame
    pieces: pd.DataFrame
    cold_starts: pd.DataFrame
    ceilings: pd.DataFrame
    neighbours: pd.DataFrame
    counters: pd.DataFrame
    accuracy: pd.DataFrame
    later: tuple[dict[str, Any], ...] = ()

    @property
    def sessions(self) -> tuple[dict[str, Any], ...]:
        """The provenance of each session."""
        return (self.provenance, *self.later)

    def table(self, name: str) -> pd.DataFrame:
        """Return the table of the file `name`, for example ``samples.csv.gz``."""
        frame: pd.DataFrame = getattr(self, _attribute(name))
        return frame


def write(
    path: Path | str, provenance: dict[str, Any], frames: Mapping[str, pd.DataFrame]
) -> Recording:
    """Write a recording to the folder `path` atomically; read it back and return it.

    `frames` maps file names to frames; a missing one has no rows. Raise RecordingError if the
    content is invalid, or if `path` contains something other than a recording. An older recording
    is replaced.
    """
    path = Path(path)
    check_target(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    try:
        content = {PROVENANCE: (json.dumps(provenance, indent=2) + "\n").encode()}
        content |= {name: _table_bytes(name, frames.get(name)) for name in TABLES}
        for name, data in content.items():
            (temporary / name).write_bytes(data)
        lines = [
            f"{hashlib.sha256(content[name]).hexdigest()}  {name}\n" for name in sorted(content)
        ]
        (temporary / MANIFEST).write_text("".join(lines))
        made = read(temporary)
        temporary.chmod(0o755)
        _replace_folder(path, temporary)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return replace(made, path=path)


def check_target(path: Path) -> None:
    """Raise RecordingError if the folder `path` contains something other than a recording.

    Single tables are allowed: a workflow that removed its outputs may leave them.
    """
    names = {each.name for each in path.iterdir()} if path.exists() else set()
    if MANIFEST not in names and names - {*TABLES}:
        raise RecordingError(
            f"{path}: is not empty and not a recording; use another folder or empty it"
        )


def read(path: Path | str) -> Recording:
    """Read and validate the recording in the folder `path`.

    Raise RecordingError if a file is missing, truncated, altered, too large or of another format,
    or if the tables are inconsistent.
    """
    path = Path(path)
    check_manifest(path)
    provenance = read_provenance(path)
    frames = _read_tables(path)
    problem = fault(provenance, frames)
    if problem:
        raise bad(path, problem)
    frames = {name: frame.rename(columns=RENAMED.get(name, {})) for name, frame in frames.items()}
    for frame in frames.values():
        rows = len(frame)
        frame["session"] = pd.arrays.IntegerArray(np.zeros(rows, np.int64), np.zeros(rows, bool))
    return Recording(
        path, provenance, **{_attribute(name): frame for name, frame in frames.items()}
    )


def _attribute(name: str) -> str:
    """Return the attribute of `Recording` for the table in the file `name`."""
    return name.split(".")[0]


def _replace_folder(path: Path, new: Path) -> None:
    """Replace the folder `path` by `new`; if that fails, the older one is kept."""
    older = new.with_name(f"{new.name}.older")
    replaces = path.exists()
    if replaces:
        os.replace(path, older)
    try:
        os.replace(new, path)
    except BaseException:
        if replaces:
            os.replace(older, path)
        raise
    shutil.rmtree(older, ignore_errors=True)


def _table_bytes(name: str, frame: pd.DataFrame | None) -> bytes:
    """Return a table as CSV, gzipped without time stamp: equal data give equal bytes."""
    types = TABLES[name]
    frame = pd.DataFrame(columns=list(types)) if frame is None else frame
    in_file = {column: of_file for of_file, column in RENAMED.get(name, {}).items()}
    text = frame.rename(columns=in_file)[list(types)].astype(types).to_csv(index=False)
    return gzip.compress(text.encode(), mtime=0) if name.endswith(".gz") else text.encode()


def _read_tables(path: Path) -> dict[str, pd.DataFrame]:
    """Read all tables of a recording; together they may unpack to `MOST_BYTES`."""
    left, frames = MOST_BYTES, {}
    texts: dict[str, str] = {}
    for name in TABLES:
        frames[name], size = read_table(path, name, left, texts)
        left -= size
    return frames


def read_table(
    path: Path, name: str, most: int, texts: dict[str, str] | None = None
) -> tuple[pd.DataFrame, int]:
    """Read one CSV of at most `most` unpacked bytes; return the frame and its unpacked bytes.

    The header is compared with the schema before anything else is read. Rows are converted in
    blocks, because their texts would take ten times the memory. Equal texts share one object of
    `texts`.
    """
    table, file = ALL[name], path / name
    most = min(most, max(_FREE_BYTES, _MOST_RATIO * file.stat().st_size))
    texts = {} if texts is None else texts
    rows = -1  # the header
    try:
        lines = size = 0
        for block in _blocks(file, most):
            if not lines:
                _check_header(block, table)
            lines += block.count(b"\n")
            size += len(block)
        needed = lines * sum(_VALUE_BYTES[kind] for kind in table.kinds.values())
        if needed > max(_FREE_BYTES, _MOST_TIMES * size):
            raise ValueError(f"its {lines} lines are too short: {size // lines} bytes on average")
        values = {column: _Values(column, lines - 1) for column in table.columns}
        for block in _blocks(file, most):
            cells = _cells(block, table)
            for at, (column, own) in enumerate(values.items()):
                given = cells[at :: len(values)]
                if rows < 0:
                    given = given[1:]
                own.put(max(rows, 0), given, column in table.gaps, texts)
            rows += len(cells) // len(values)
    except _InvalidRow as wrong:
        raise bad(path, f"{name}: row {rows + wrong.row + 2}{wrong}") from None
    except _InvalidValue as wrong:
        row = "" if wrong.row is None else f" in row {max(rows, 0) + wrong.row + 2}"
        raise bad(path, f"{name}: column {column}{wrong}{row}") from None
    except _OtherColumns as wrong:
        raise bad(path, f"{name} has {wrong}") from None
    except (OSError, ValueError, csv.Error, zlib.error) as error:
        raise bad(path, f"{name} cannot be read ({' '.join(str(error).split())})") from None
    return _frame(values, lines - 1), size


def _frame(values: dict[str, "_Values"], rows: int) -> pd.DataFrame:
    """Return `values` as a frame of `rows`; `values` is emptied to free memory."""
    arrays = {name: values.pop(name).array() for name in list(values)}
    return pd.DataFrame(arrays, copy=False, index=range(rows))


def _check_header(block: bytes, table: Table) -> None:
    """Raise _OtherColumns if the first line does not contain the table's columns."""
    header = block[: block.index(b"\n")].decode()
    if header != ",".join(table.columns):
        named = header.split(",")
        shown = f"the columns {named}" if len(header) < _LONGEST_HEADER else f"{len(named)} columns"
        raise _OtherColumns(f"{shown}, not {list(table.columns)}")


def _cells(block: bytes, table: Table) -> list[str]:
    """Return the cells of whole lines of CSV, row after row; raise _InvalidRow.

    Only reasons may be quoted; other texts contain neither commas nor quotation marks.
    """
    text, width = block.decode(), len(table.columns)
    lines = text[:-1].split("\n")
    if '"' not in text or "reason" not in table.columns:
        counts = [line.count(",") + 1 for line in lines]
        cells = text[:-1].replace("\n", ",").split(",")
    else:
        rows = list(csv.reader(lines, strict=True))
        counts = [len(row) for row in rows]
        cells = [cell for row in rows for cell in row]
        if len(rows) < len(lines):
            raise ValueError("a text contains a line break")
    for at, count in enumerate(counts):
        if count != width:
            raise _InvalidRow(f" has {count} values, not {width}", at)
    return cells


def _blocks(path: Path, most: int) -> Iterator[bytes]:
    """Yield blocks of whole lines of a file, which may unpack to `most` bytes.

    Raise ValueError for a longer file, and for a line longer than `_LONGEST_ROW`.
    """
    rest, taken = b"", 0
    with path.open("rb") as file:
        plain = iter(partial(file.read, _BLOCK), b"")
        for block in _unpacked(file) if path.suffix == ".gz" else plain:
            taken += len(block)
            if taken > most:
                raise ValueError(f"it unpacks to more than {most} bytes")
            whole, line_end, begun = block.rpartition(b"\n")
            if line_end:
                yield rest + whole + line_end
                rest = begun
            else:
                rest += begun
            if len(rest) > _LONGEST_ROW:
                raise ValueError(f"a line has more than {_LONGEST_ROW} bytes")
    if rest or not taken:
        yield rest + b"\n"


def _unpacked(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the content of a gzip file, which must have one member; raise ValueError."""
    inflater = zlib.decompressobj(wbits=31)
    for packed in iter(partial(file.read, _BLOCK), b""):
        left = packed
        while left and not inflater.eof:
            yield inflater.decompress(left, _BLOCK)
            left = inflater.unconsumed_tail
        if inflater.unused_data or left:
            raise ValueError("it continues after the end of the packed data")
    if not inflater.eof:
        raise ValueError("the packed data are cut off")


class _Values:
    """A preallocated column filled in parts; concatenating parts would need two copies."""

    def __init__(self, name: str, rows: int) -> None:
        self._column = COLUMNS[name]
        types = {"string": object, "Int64": np.int64, "float64": np.float64}
        self._values = np.empty(rows, types[self._column.kind])
        self._gaps = np.zeros(rows if self._column.kind == "Int64" else 0, bool)

    def put(self, at: int, cells: list[str], may_be_empty: bool, texts: dict[str, str]) -> None:
        """Convert and store cells from row `at`; raise _InvalidValue."""
        found = set(cells)
        if "" in found and not may_be_empty:
            raise _InvalidValue(" is empty", cells.index(""))
        part = slice(at, at + len(cells))
        if self._column.kind == "string":
            self._values[part] = self._texts(cells, found, texts)
            return
        if self._column.kind == "Int64":
            numbers = self._whole(cells, found)
            self._gaps[part] = gaps = numbers == _GAP
            numbers[gaps] = 0
        else:
            numbers = _real(cells) if found != {""} else np.full(len(cells), math.nan)
            gaps = np.isnan(numbers)  # no text is converted to NaN
        self._values[part] = numbers
        fault = self._column.number_fault(numbers, ~gaps)
        if fault:
            raise _InvalidValue(f" {fault[1]}", fault[0])

    def _texts(self, cells: list[str], found: set[str], texts: dict[str, str]) -> list[Any]:
        own: dict[str, Any] = {"": pd.NA}
        for text in found - {""}:
            if said := self._column.text_fault(text):
                raise _InvalidValue(f": {said}", cells.index(text))
            own[text] = texts.setdefault(text, text)
        if len(texts) > _MOST_TEXTS:
            raise _InvalidValue(f": more than {_MOST_TEXTS} different texts")
        return list(map(own.__getitem__, cells))

    def _whole(self, cells: list[str], found: set[str]) -> np.ndarray:
        own = {"": _GAP}
        for text in found - {""}:
            if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS):
                least, most = self._column.least, self._column.most
                said = f": {text!r:.40} is not a whole number from {least:.0f} to {most:.0f}"
                raise _InvalidValue(said, cells.index(text))
            own[text] = int(text)
        return np.fromiter(map(own.__getitem__, cells), np.int64, len(cells))

    def array(self) -> Any:
        """Return the column as an array of pandas."""
        if self._column.kind == "Int64":
            return pd.arrays.IntegerArray(self._values, self._gaps)
        kind = self._column.kind
        return pd.array(self._values, dtype="string") if kind == "string" else self._values


def _real(cells: list[str]) -> np.ndarray:
    """Convert decimal numbers in ASCII digits, and ``inf``; an empty text is NaN."""
    try:
        if "".join(cells).encode("ascii").translate(None, _OF_NUMBERS):
            raise ValueError
        return np.array([float(cell) if cell else math.nan for cell in cells])
    except ValueError:
        for at, cell in enumerate(cells):
            if cell and cell != "inf" and not re.fullmatch(_REAL, cell):
                raise _InvalidValue(f": {cell!r:.40} is not a number", at) from None
        return np.array([float(cell) if cell else math.nan for cell in cells])


class _InvalidValue(Exception):  # noqa: N818  raised again as RecordingError
    """An invalid value of a column; `row` counts from 0 in its block, None if unknown."""

    def __init__(self, text: str, row: int | None = None) -> None:
        super().__init__(text)
        self.row = row


class _InvalidRow(Exception):  # noqa: N818  raised again as RecordingError
    """A row without a value for each column; `row` counts from 0 in its block."""

    def __init__(self, text: str, row: int) -> None:
        super().__init__(text)
        self.row = row


class _OtherColumns(Exception):  # noqa: N818  raised again as RecordingError
    """A header that differs from the schema."""
