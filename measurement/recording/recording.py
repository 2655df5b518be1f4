"""The recording: a folder of plain files with one measurement of one host.

    provenance.json    GPUs, host, software, sources, study
    *.csv, *.csv.gz    the tables, which `base/dictionary.txt` describes
    MANIFEST.sha256    the SHA-256 of each file above, in the format of sha256sum

`write` creates the folder atomically. `read` rejects incomplete and altered recordings.
"""

import gzip
import hashlib
import io
import json
import os
import shutil
import tempfile
import warnings
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from base.dictionary import FILES, Declaration, declared
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
from measurement.recording.schema import (
    CELL,
    KERNEL,
    TABLES,
    number_fault,
    one_line,
    text_fault,
)

__all__ = [
    "CELL",
    "KERNEL",
    "MANIFEST",
    "TABLES",
    "Recording",
    "RecordingError",
    "check_target",
    "plain_rows",
    "read",
    "write",
]

# Columns whose name in memory differs from the name in the file: the file format is fixed.
_TIMED_IN_RUN = {"kernel_s": "in_run_kernel_s"}
RENAMED = dict.fromkeys(("samples.csv.gz", "cold_starts.csv", "neighbours.csv"), _TIMED_IN_RUN)
# Above this size, a table may unpack to this multiple of its packed size.
_FREE_BYTES, _MOST_RATIO = 2**20, 100
_MOST_ROWS = 2**19  # largest number of rows in a table
_LONGEST_HEADER = 1000  # longest quoted header, in characters


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
    throughput: pd.DataFrame
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
        """Return the table in the file `name`, for example ``samples.csv.gz``."""
        frame: pd.DataFrame = getattr(self, _attribute(name))
        return frame


def write(
    path: Path | str, provenance: dict[str, Any], frames: Mapping[str, pd.DataFrame]
) -> Recording:
    """Write a recording to the folder `path` atomically; read it back and return it.

    `frames` maps file names to frames; a file without frame gets no rows. Raise RecordingError if
    the content is invalid, or if `path` contains something other than a recording. An older
    recording is replaced.
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

    Raise RecordingError if a file is missing, truncated, altered, too large or has another format,
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


def plain_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table as plain values; None where there is no value."""
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return [{str(name): value for name, value in row.items()} for row in rows]


def _attribute(name: str) -> str:
    return name.split(".")[0]


def _replace_folder(path: Path, new: Path) -> None:
    """Replace the folder `path` by the folder `new`; if that fails, the older one is kept."""
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
    """Return a table as CSV, gzipped without time stamp so that equal data give equal bytes."""
    types = TABLES[name]
    frame = pd.DataFrame(columns=list(types)) if frame is None else frame
    in_file = {column: of_file for of_file, column in RENAMED.get(name, {}).items()}
    text = frame.rename(columns=in_file)[list(types)].astype(types).to_csv(index=False)
    return gzip.compress(text.encode(), mtime=0) if name.endswith(".gz") else text.encode()


def _read_tables(path: Path) -> dict[str, pd.DataFrame]:
    """Read all tables of a recording; they must not exceed `MOST_BYTES` when unpacked."""
    left, frames = MOST_BYTES, {}
    for name in TABLES:
        frames[name], size = read_table(path, name, left)
        left -= size
    return frames


def read_table(path: Path, name: str, most: int) -> tuple[pd.DataFrame, int]:
    """Read one CSV file of at most `most` unpacked bytes; return its rows and its size unpacked.

    Its size and its header are compared with the schema before pandas reads it. Raise
    RecordingError naming the first fault.
    """
    columns, kinds = FILES[name].columns, TABLES[name]
    try:
        content = _content(path / name, most)
        if problem := _header_fault(content, columns):
            raise bad(path, f"{name} has {problem}")
        frame = _numbers(content, kinds)
    except (OSError, EOFError, ValueError, zlib.error, pd.errors.ParserWarning) as error:
        said = one_line(" ".join(str(error).split()))[:_LONGEST_HEADER]
        raise bad(path, f"{name} cannot be read ({said})") from None
    for column in columns:
        declaration, gaps = declared(name, column), FILES[name].gaps
        if problem := _column_fault(frame[column], declaration, column in gaps):
            raise bad(path, f"{name}: column {column}{problem}")
    return frame.astype(kinds), len(content)


def _content(file: Path, most: int) -> bytes:
    """Return the unpacked bytes of a table, at most `most`; raise ValueError if it is larger."""
    most = min(most, max(_FREE_BYTES, _MOST_RATIO * file.stat().st_size))
    with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as stream:
        content = stream.read(most + 1)
    if len(content) > most:
        raise ValueError(f"it unpacks to more than {most} bytes")
    if content.count(b"\n") > _MOST_ROWS:
        raise ValueError(f"it has more than {_MOST_ROWS} rows")
    if content and not content.endswith(b"\n"):
        raise ValueError("the last line is cut off")
    if b"\0" in content or b"\r" in content:
        raise ValueError("it contains a control character")
    return content


def _header_fault(content: bytes, columns: Sequence[str]) -> str | None:
    """Return how the first line differs from the table's columns; None if it matches."""
    header = content[: content.find(b"\n")].decode()
    if header == ",".join(columns):
        return None
    named = header.split(",")
    shown = f"the columns {named}" if len(header) < _LONGEST_HEADER else f"{len(named)} columns"
    return f"{shown}, not {list(columns)}"


def _parsed(content: bytes, types: Mapping[str, str]) -> pd.DataFrame:
    """Return the rows of a CSV with these types of columns; an empty cell is missing."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        return pd.read_csv(
            io.BytesIO(content),
            dtype=dict(types),
            index_col=False,
            keep_default_na=False,
            na_values=[""],
            skip_blank_lines=False,
            lineterminator="\n",
        )


def _numbers(content: bytes, kinds: Mapping[str, str]) -> pd.DataFrame:
    """Return the rows of a table with numbers; raise ValueError naming the first invalid one.

    Whole numbers are read as float64: `number_fault` rejects fractions.
    """
    try:
        return _parsed(content, {n: kind.replace("Int64", "float64") for n, kind in kinds.items()})
    except (ValueError, TypeError) as error:
        texts = _parsed(content, dict.fromkeys(kinds, "string"))
        for name in kinds:
            wrong = texts[name].notna() & pd.to_numeric(texts[name], errors="coerce").isna()
            if kinds[name] != "string" and wrong.any():
                at = int(wrong.argmax())
                said = f"{texts[name][at]!r:.40} is not a number in row {at + 2}"
                raise ValueError(f"column {name}: {said}") from None
        raise error


def _column_fault(values: pd.Series, column: Declaration, may_be_empty: bool) -> str | None:
    """Return the first fault in the values of a column read by `_parsed`; None if it has none."""
    empty = values.isna().to_numpy()
    if empty.any() and not may_be_empty:
        return f" is empty in row {int(empty.argmax()) + 2}"
    if column.kind == "text":
        for text in values.dropna().unique():
            if problem := text_fault(column, text):
                at = int(values.eq(text).fillna(False).argmax())
                return f": {problem} in row {at + 2}"
        return None
    wrong = number_fault(column, values.to_numpy(), ~empty)
    return f" {wrong[1]} in row {wrong[0] + 2}" if wrong else None
