"""The recording: a folder of plain files with one measurement of one host.

    provenance.json    GPUs, host, software, sources, study
    samples.csv.gz     one row per sample; column names end in SI units
    checks.csv         one row per planned cell: passed, failed or not launchable, and the reason
    builds.csv         one row per cubin: registers, shared memory, spills
    instructions.csv   number of each instruction per cubin, if a disassembler was installed
    kernels.csv.gz     one row per kernel-only sample (since format 5)
    energy.csv         one row per energy measurement (since format 5)
    batches.csv.gz     one row per batch of launches (only format 4)
    cold_starts.csv    one row per process cold start and its first run
    ceilings.csv       one row per measurement of a ceiling of device, link or clock
    neighbours.csv     runs with and without traffic of the host's other GPUs
    counters.csv       hardware counters (optional)
    accuracy.csv       errors of products (optional)
    MANIFEST.sha256    the SHA-256 of each file above, in the format of sha256sum
    MANIFEST.sha256.sig    a signature of the manifest (optional, `measurement.recording.signature`)

`write` creates the folder atomically. `read` rejects incomplete and altered recordings.
"""

import gzip
import hashlib
import io
import json
import os
import shutil
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from measurement.recording.consistency import fault, number_fault, text_fault
from measurement.recording.files import (
    CELL,
    KERNEL,
    MANIFEST,
    MEASURED,
    MOST_BYTES,
    OPTIONAL,
    PROVENANCE,
    TABLES,
    RecordingError,
    bad,
    check_manifest,
    check_text,
    read_provenance,
)
from measurement.recording.signature import signed_by

__all__ = [
    "CELL",
    "KERNEL",
    "MANIFEST",
    "MEASURED",
    "OPTIONAL",
    "TABLES",
    "Recording",
    "RecordingError",
    "check_target",
    "read",
    "write",
]

# Columns with missing values. A CPU has no host memory, copies and builds; a GPU has no threads;
# few variants have host steps.
_NULLABLE = {
    "block_size",
    "host_memory",
    "host_s",
    "h2d_s",
    "kernel_s",
    "d2h_s",
    "sm_clock_hz",
    "memory_clock_hz",
    "temperature_celsius",
    "power_w",
    "throttle_reasons",
    "threads",
    "other_threads_s",
    "cpu_clock_before_hz",
    "cpu_clock_after_hz",
    "size_bytes",
    "build",
    "reason",
    "worst_row",
    "worst_column",
    "worst_error",
    "worst_bound",
}
# Tables whose attribute is not named like their file: file names are fixed.
_NAMES = {"batches": "back_to_back", "neighbours": "interference"}
# Columns whose name in memory differs from the name in the file: the file format is fixed.
_TIMED_IN_RUN = {"kernel_s": "in_run_kernel_s"}
RENAMED = dict.fromkeys(("samples.csv.gz", "cold_starts.csv", "neighbours.csv"), _TIMED_IN_RUN)
# Above this size, a table may unpack to this multiple of its packed size.
_FREE_BYTES, _MOST_RATIO = 2**20, 100
_ROWS_AT_ONCE = 1 << 13
# Bytes of a value in memory: a text is a pointer, a whole number has a flag. A table may take this
# multiple of its unpacked size; more means that its rows are implausibly short.
_VALUE_BYTES = {"string": 8, "Int64": 9, "float64": 8}
_MOST_TIMES = 3


@dataclass(frozen=True)
class Recording:
    """A recording in memory; `TABLES` and `OPTIONAL` define the columns and types of its frames.

    `provenance` is that of the file, with `signed_by` if it is signed. A missing optional table is
    an empty frame. The last column `session` counts from 0: `analysis.data.sessions` merges the
    recordings of one GPU model, and `later` contains the provenance of sessions 1, 2 ...
    """

    path: Path
    provenance: dict[str, Any]
    samples: pd.DataFrame
    checks: pd.DataFrame
    builds: pd.DataFrame
    instructions: pd.DataFrame
    kernels: pd.DataFrame
    energy: pd.DataFrame
    back_to_back: pd.DataFrame
    cold_starts: pd.DataFrame
    ceilings: pd.DataFrame
    interference: pd.DataFrame
    counters: pd.DataFrame
    accuracy: pd.DataFrame
    later: tuple[dict[str, Any], ...] = ()

    @property
    def sessions(self) -> tuple[dict[str, Any], ...]:
        """The provenance of each session."""
        return (self.provenance, *self.later)

    def table(self, name: str) -> pd.DataFrame:
        """Return the table of the file `name`, for example ``batches.csv.gz``."""
        frame: pd.DataFrame = getattr(self, _attribute(name))
        return frame


def write(
    path: Path | str, provenance: dict[str, Any], frames: Mapping[str, pd.DataFrame]
) -> Recording:
    """Write a recording to the folder `path` atomically; read it back and return it.

    `frames` maps file names to frames: all of `TABLES`, and any of `OPTIONAL`. Raise RecordingError
    if the content is invalid, or if `path` contains something other than a recording. An older
    recording is replaced.
    """
    path = Path(path)
    check_target(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    try:
        facts = {key: value for key, value in provenance.items() if key != "signed_by"}
        content = {PROVENANCE: (json.dumps(facts, indent=2) + "\n").encode()}
        named = [*TABLES, *(name for name in OPTIONAL if name in frames)]
        content |= {name: _table_bytes(name, frames[name]) for name in named}
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
    if MANIFEST not in names and names - {*TABLES, *OPTIONAL}:
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
    signer = signed_by(path)
    provenance |= {"signed_by": signer} if signer else {}
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
    stem = name.split(".")[0]
    return _NAMES.get(stem, stem)


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


def _table_bytes(name: str, frame: pd.DataFrame) -> bytes:
    """Return a table as CSV, gzipped without time stamp: equal data give equal bytes."""
    types = (TABLES | OPTIONAL)[name]
    in_file = {column: of_file for of_file, column in RENAMED.get(name, {}).items()}
    text = frame.rename(columns=in_file)[list(types)].astype(types).to_csv(index=False)
    return gzip.compress(text.encode(), mtime=0) if name.endswith(".gz") else text.encode()


def _read_tables(path: Path) -> dict[str, pd.DataFrame]:
    """Read all tables of a recording; together they may unpack to `MOST_BYTES`."""
    left, frames = MOST_BYTES, {}
    for name, types in (TABLES | OPTIONAL).items():
        if name in TABLES or (path / name).is_file():
            frames[name], size = read_table(path, name, left)
            left -= size
        else:
            frames[name] = _frame({column: _Column(kind, 0) for column, kind in types.items()}, 0)
    return frames


def read_table(path: Path, name: str, most: int) -> tuple[pd.DataFrame, int]:
    """Read one CSV of at most `most` unpacked bytes; return the frame and its unpacked bytes.

    Columns and types must be those of `TABLES`. The CSV is read and converted in parts, because its
    texts would take ten times the memory.
    """
    types = (TABLES | OPTIONAL)[name]
    most = min(most, max(_FREE_BYTES, _MOST_RATIO * (path / name).stat().st_size))
    texts: dict[str, str] = {}
    rows = 0
    try:
        with _unpacked(path / name, most) as stream:
            lines = sum(block.count(b"\n") for block in iter(partial(stream.read, 2**16), b""))
            size = stream.taken
        needed = lines * sum(_VALUE_BYTES[kind] for kind in types.values())
        if needed > max(_FREE_BYTES, _MOST_TIMES * size):
            raise ValueError(f"its {lines} lines are too short: {size // lines} bytes on average")
        columns = {column: _Column(kind, lines) for column, kind in types.items()}
        with _unpacked(path / name, most) as stream:
            for part in pd.read_csv(stream, dtype=object, na_filter=False, chunksize=_ROWS_AT_ONCE):
                if list(part.columns) != list(types):
                    raise bad(path, f"{name} has the columns {list(part)}, not {list(types)}")
                if not isinstance(part.index, pd.RangeIndex):
                    raise ValueError("a row has more values than there are columns")
                for column, kind in types.items():
                    try:
                        cells = part[column].to_numpy()
                        columns[column].put(rows, *_typed(cells, column, kind, texts))
                    except _InvalidValue as wrong:
                        row = "" if wrong.row is None else f" in row {rows + wrong.row + 2}"
                        raise bad(path, f"{name}: column {column}{wrong}{row}") from None
                rows += len(part)
    except (OSError, ValueError, EOFError, zlib.error) as error:
        raise bad(path, f"{name} cannot be read ({' '.join(str(error).split())})") from None
    return _frame(columns, rows), size


def _frame(columns: dict[str, "_Column"], rows: int) -> pd.DataFrame:
    """Return the first rows of `columns` as a frame; `columns` is emptied to free memory."""
    arrays = {name: columns.pop(name).array(rows) for name in list(columns)}
    return pd.DataFrame(arrays, copy=False)


@contextmanager
def _unpacked(path: Path, most: int) -> Iterator["_Limited"]:
    with path.open("rb") as file:
        packed: Any = gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else file
        yield _Limited(packed, most)


class _Column:
    """A preallocated column filled in parts; concatenating parts would need two copies."""

    def __init__(self, kind: str, rows: int) -> None:
        self._kind = kind
        types = {"string": object, "Int64": np.int64, "float64": np.float64}
        self._values = np.empty(rows, types[kind])
        self._gaps = np.empty(rows if kind == "Int64" else 0, bool)

    def put(self, at: int, values: np.ndarray, gaps: np.ndarray) -> None:
        part = slice(at, at + len(values))
        self._values[part] = values
        if self._kind == "Int64":
            self._gaps[part] = gaps

    def array(self, rows: int) -> Any:
        values = self._values[:rows]
        if self._kind == "Int64":
            return pd.arrays.IntegerArray(values, self._gaps[:rows])
        return pd.array(values, dtype="string") if self._kind == "string" else values


class _Limited(io.RawIOBase):
    """A stream of bytes; reading more than `most` raises ValueError."""

    def __init__(self, stream: IO[bytes], most: int) -> None:
        self._stream = stream
        self._most = most
        self.taken = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(len(buffer))
        self.taken += len(data)
        if self.taken > self._most:
            raise ValueError(f"it unpacks to more than {self._most} bytes")
        buffer[: len(data)] = data
        return len(data)


class _InvalidValue(Exception):  # noqa: N818  raised again as RecordingError
    """An invalid value of a column; `row` counts from 0, None if unknown."""

    def __init__(self, text: str, row: int | None = None) -> None:
        super().__init__(text)
        self.row = row


def _typed(
    cells: np.ndarray, column: str, kind: str, texts: dict[str, str]
) -> tuple[np.ndarray, np.ndarray]:
    """Convert texts to the type of a column; return values and a mask of missing ones.

    Equal texts share one object of `texts`. NumPy is used because pandas' overhead per column
    would dominate for small tables. Raise _InvalidValue.
    """
    empty = cells == ""
    if column not in _NULLABLE and empty.any():
        raise _InvalidValue(" is empty", int(empty.argmax()))
    if kind == "string":
        numbers, found = pd.factorize(cells)
        for number, text in enumerate(found):
            try:
                check_text(text)
            except ValueError as error:
                raise _InvalidValue(f": {error}") from None
            if text and (said := text_fault(column, text)):
                raise _InvalidValue(f": {said}", int((numbers == number).argmax()))
        own = [texts.setdefault(text, text) if text else pd.NA for text in found]
        return np.array(own, object)[numbers], empty
    try:
        if kind == "Int64":
            values = np.where(empty, "0", cells).astype(np.int64)
        else:
            values = np.where(empty, "nan", cells).astype(np.float64)
    except (OverflowError, ValueError) as error:
        raise _InvalidValue(f": {error}") from None
    strange = np.isnan(values) & ~empty  # NumPy converts the text nan
    if strange.any():
        raise _InvalidValue(" is not a number", int(strange.argmax()))
    found_fault = number_fault(column, values, ~empty)
    if found_fault:
        raise _InvalidValue(f" {found_fault[1]}", found_fault[0])
    return values, empty
