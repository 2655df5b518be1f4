"""The recording: one folder of plain files that holds a measurement and travels.

    provenance.json    what was measured, where, with what
    samples.csv.gz     one row a sample, SI units in the column names
    checks.csv         one row a planned cell: passed, failed or not launchable, and why
    builds.csv         one row a cubin: registers, shared memory, spills
    instructions.csv   how often each instruction stands in each cubin, where it could be read
    kernels.csv.gz     one row a launch of a kernel alone (from format 5 on)
    energy.csv         one row a run of launches back to back, and what energy it took (likewise)
    batches.csv.gz     one row a run of launches back to back (up to format 4)
    cold_starts.csv    one row a fresh process: start-up and first pass
    ceilings.csv       one row a measurement of what device, link and clock can do
    neighbours.csv     passes with and without traffic of the host's other GPUs
    counters.csv       hardware counters of launches; only where they were asked for
    MANIFEST.sha256    the hash of each of the above, in the format of sha256sum

`write` makes the folder in one step, `read` refuses by name one that is incomplete or altered.
"""

import gzip
import hashlib
import io
import json
import os
import shutil
import tempfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from measurement.recording_files import (
    CELL,
    KERNEL,
    MANIFEST,
    MEASURED,
    OPTIONAL,
    PROVENANCE,
    TABLES,
    RecordingError,
    bad,
    check_manifest,
    read_provenance,
)

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

# Columns without a value in some rows: a CPU has no host memory kind, no copies and no build, a GPU
# no threads of the host, and few variants have work for the host.
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
# Tables whose name here is not that of their file: the format of a recording stays.
_NAMES = {"batches": "back_to_back", "neighbours": "interference"}
STATUSES = {"passed", "failed", "not_launchable"}


@dataclass(frozen=True)
class Recording:
    """A recording in memory; the frames' columns and types are those of `TABLES`.

    One of `OPTIONAL` that is not there is an empty frame. A last column, `sitting`, counts the
    sittings from 0: recordings of one kind of card may stand together as one, whose `later` are the
    provenances of those after the first (`analysis.data.sittings`).
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
    later: tuple[dict[str, Any], ...] = ()

    @property
    def sittings(self) -> tuple[dict[str, Any], ...]:
        """The provenance of every sitting."""
        return (self.provenance, *self.later)

    def table(self, name: str) -> pd.DataFrame:
        """Return the table that the file `name` holds, for example ``batches.csv.gz``."""
        frame: pd.DataFrame = getattr(self, _attribute(name))
        return frame


def write(
    path: Path | str, provenance: dict[str, Any], frames: Mapping[str, pd.DataFrame]
) -> Recording:
    """Write a recording to the folder `path`, whole or not at all, and read it back.

    `frames` holds a frame for each of `TABLES`, by file name, and any of `OPTIONAL`. Raises
    RecordingError if the content breaks the format, or if `path` holds something else than a
    recording (an older recording there is replaced).
    """
    path = Path(path)
    check_target(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    try:
        content = {PROVENANCE: (json.dumps(provenance, indent=2) + "\n").encode()}
        named = [*TABLES, *(name for name in OPTIONAL if name in frames)]
        content |= {name: _table_bytes(name, frames[name]) for name in named}
        for name, data in content.items():
            (temporary / name).write_bytes(data)
        lines = [
            f"{hashlib.sha256(content[name]).hexdigest()}  {name}\n" for name in sorted(content)
        ]
        (temporary / MANIFEST).write_text("".join(lines))
        read(temporary)
        temporary.chmod(0o755)
        _replace_folder(path, temporary)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return read(path)


def check_target(path: Path) -> None:
    """Raise RecordingError if the folder `path` holds something else than a recording.

    Single tables are what a workflow leaves that removes its outputs before it makes them anew.
    """
    names = {each.name for each in path.iterdir()} if path.exists() else set()
    if MANIFEST not in names and names - {*TABLES, *OPTIONAL}:
        raise RecordingError(f"{path}: is not empty and no recording; name another folder")


def read(path: Path | str) -> Recording:
    """Read and validate the recording in the folder `path`.

    Raises RecordingError naming the folder and what is wrong: missing, cut off, altered, of another
    format, or with a table that does not fit `TABLES`.
    """
    path = Path(path)
    check_manifest(path)
    provenance = read_provenance(path)
    frames = {name: _read_table(path, name) for name in TABLES}
    for name, types in OPTIONAL.items():
        empty = pd.DataFrame(columns=list(types)).astype(types)
        frames[name] = _read_table(path, name) if (path / name).is_file() else empty
    unknown = set(frames["checks.csv"]["status"]) - STATUSES
    if unknown:
        raise bad(path, f"checks.csv: status {sorted(unknown)[0]!r} is none of {sorted(STATUSES)}")
    counted = {
        name: frame.assign(sitting=pd.array([0] * len(frame), "Int64"))
        for name, frame in frames.items()
    }
    return Recording(
        path, provenance, **{_attribute(name): frame for name, frame in counted.items()}
    )


def _attribute(name: str) -> str:
    """Return the attribute of `Recording` for the table in the file `name`."""
    stem = name.split(".")[0]
    return _NAMES.get(stem, stem)


def _replace_folder(path: Path, new: Path) -> None:
    """Put the folder `new` in the place of `path`; where that fails, the older one stays."""
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
    """Return a table as CSV, gzipped without time stamp so that equal data give equal bytes."""
    types = (TABLES | OPTIONAL)[name]
    text = frame[list(types)].astype(types).to_csv(index=False)
    return gzip.compress(text.encode(), mtime=0) if name.endswith(".gz") else text.encode()


def _read_table(path: Path, name: str) -> pd.DataFrame:
    """Read one CSV with the column types of `TABLES`; refuse other columns and missing values."""
    data = (path / name).read_bytes()
    types = (TABLES | OPTIONAL)[name]
    try:
        text = gzip.decompress(data) if name.endswith(".gz") else data
        frame = pd.read_csv(io.BytesIO(text), dtype="string", keep_default_na=False)
    except (OSError, ValueError, EOFError, zlib.error) as error:
        raise bad(path, f"{name} cannot be read ({' '.join(str(error).split())})") from None
    if list(frame.columns) != list(types):
        raise bad(path, f"{name} has the columns {list(frame.columns)}, not {list(types)}")
    for column, kind in types.items():
        values = frame[column].replace("", pd.NA)
        empty = values.isna()
        if column not in _NULLABLE and empty.any():
            raise bad(path, f"{name}: column {column} is empty in row {int(empty.argmax()) + 2}")
        try:
            frame[column] = values.astype(kind) if kind != "float64" else values.astype("Float64")
        except (TypeError, ValueError) as error:
            raise bad(path, f"{name}: column {column}: {error}") from None
        if kind == "float64":
            frame[column] = frame[column].astype("float64")
            # Infinity is a number to a CSV reader, but no time that anything took.
            wrong = ~empty & ~np.isfinite(frame[column]) | (frame[column] < 0)
            if column.endswith("_s") and wrong.any():
                raise bad(path, f"{name}: column {column} has no time in row {wrong.argmax() + 2}")
    return frame
