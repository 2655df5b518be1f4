"""The journal, which stores each result on disk before the next measurement starts.

During a recording the folder ``NAME.partial`` contains

    header.json      the task; only the same task resumes a journal
    journal.jsonl    rows of the recording's tables, in the order of measurement
    lock             a file that the recording process has locked

If the process is killed, the next process with the same task resumes after the last complete line.
"""

import fcntl
import json
import os
import shlex
import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from base.errors import StudyError
from base.files import write_atomic
from kernels.catalog.product import Product
from measurement.recording.recording import TABLES
from study.cells import Cell

JournalRow = dict[str, Any]

# Each line is written at once, so a killed process loses none. A power failure loses at most this
# time.
_SYNC_S = 1.0
_LONGEST = 120  # longest value in a message, in characters
# Rows that belong to no table: durations of phases, runs that are not samples, packages that
# user-supplied calls imported, and starts of the process.
PHASES, PILOTS, IMPORTS, ATTEMPTS = "phase", "pilot", "imports", "attempt"


class Journal:
    """The rows measured so far, on disk and in memory; thread-safe. Open it by `open_journal`."""

    def __init__(self, folder: Path, header: Mapping[str, Any]) -> None:
        self._path = folder / "journal.jsonl"
        self.header = header
        self.rows: dict[str, list[JournalRow]] = {
            name: [] for name in (*TABLES, PHASES, PILOTS, IMPORTS, ATTEMPTS)
        }
        self._one_at_a_time = threading.Lock()
        self._size = self._read()
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o666)
        os.ftruncate(self._file, self._size)
        self._synced_s = time.monotonic()
        self.add(ATTEMPTS, {})

    @property
    def has_results(self) -> bool:
        """Whether any table has a row."""
        return any(self.rows[name] for name in TABLES)

    def add(self, kind: str, *rows: JournalRow) -> None:
        """Append all rows of one kind to the file, or none; raise StudyError if that fails."""
        with self._one_at_a_time:
            self._append(kind, list(rows))

    def checks(self) -> dict[Cell, JournalRow]:
        """Return the last check of each cell, in the order of the first checks."""
        return {Cell.of(row): row for row in self.rows["checks.csv"]}

    def frames(self) -> dict[str, pd.DataFrame]:
        """Return the recording's tables, without the samples of cells that failed later."""
        checks = self.checks()
        rows = dict(self.rows) | {"checks.csv": list(checks.values())}
        passed = {cell for cell, check in checks.items() if check["status"] == "passed"}
        rows["samples.csv.gz"] = [row for row in rows["samples.csv.gz"] if Cell.of(row) in passed]
        kernels = {(cell.device, cell.product) for cell in passed}
        rows["kernels.csv.gz"] = [
            row for row in rows["kernels.csv.gz"] if (row["device"], Product.of(row)) in kernels
        ]
        return {name: pd.DataFrame(rows[name], columns=list(TABLES[name])) for name in TABLES}

    def close(self) -> None:
        """Close the file; adding rows then raises StudyError."""
        with self._one_at_a_time:
            os.close(self._file)
            self._file = -1

    def _read(self) -> int:
        """Read the rows of an interrupted journal; return the number of bytes of complete lines."""
        if not self._path.exists():
            return 0
        data = self._path.read_bytes()
        size = data.rfind(b"\n") + 1  # an incomplete line is measured again
        for line in data[:size].splitlines():
            kind, rows = json.loads(line)
            self.rows[kind] += rows
        return size

    def _append(self, kind: str, rows: list[JournalRow]) -> None:
        line = (json.dumps([kind, rows], separators=(",", ":")) + "\n").encode()
        try:
            if os.fstat(self._file).st_size != self._size:
                raise StudyError(f"{self._path}: another process changed it; delete its folder")
            written = os.pwrite(self._file, line, self._size)
            if written < len(line):  # the disk is full: the next write raises the error
                os.pwrite(self._file, line[written:], self._size + written)
            if time.monotonic() - self._synced_s >= _SYNC_S:
                os.fdatasync(self._file)
                self._synced_s = time.monotonic()
        except OSError as error:
            raise StudyError(
                f"{self._path}: {error.strerror}; all samples so far are kept: free disk space and "
                "rerun the same command"
            ) from None
        self._size += len(line)
        self.rows[kind] += rows


def journal_folder(out: Path) -> Path:
    """Return the folder of the journal that belongs to the recording `out`."""
    return out.with_name(f"{out.name}.partial")


@contextmanager
def open_journal(out: Path, header: Mapping[str, Any]) -> Iterator[Journal]:
    """Open a new journal for the recording `out`, or the journal of an interrupted recording.

    After an exception a journal with rows is kept; otherwise it is removed. `header` contains the
    "task", which must equal that of an older journal, and "facts" about the start, which are kept.
    Raise StudyError if another process uses the journal, or if its task differs.
    """
    folder = journal_folder(out)
    with _locked(folder, out):
        _compare_headers(folder, json.loads(json.dumps(header)))
        journal = Journal(folder, json.loads((folder / "header.json").read_text())["facts"])
        finished = False
        try:
            yield journal
            finished = True
        finally:
            journal.close()
            if finished or not journal.has_results:
                shutil.rmtree(folder)


@contextmanager
def _locked(folder: Path, out: Path) -> Iterator[None]:
    """Lock a journal's folder, which is created if missing."""
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "lock"
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StudyError(
                    f"{out}: another process is recording there; wait for its end or use another "
                    "folder"
                ) from None
            # The previous owner may have removed the folder after we opened the file.
            if not (path.exists() and os.path.samestat(os.fstat(lock), path.stat())):
                continue
            yield
            return
        finally:
            os.close(lock)


def _compare_headers(folder: Path, header: JournalRow) -> None:
    """Write the header of a new journal; raise StudyError if an older header has another task."""
    path = folder / "header.json"
    if not path.exists():
        write_atomic(path, json.dumps(header, indent=2) + "\n")
        return
    begun = json.loads(path.read_text())["task"]
    if changes := list(_changes(begun, header["task"])):
        raise StudyError(
            f"{folder}: contains an interrupted recording with other values: {'; '.join(changes)}; "
            f"restore these to resume it, or begin again: rm -r {shlex.quote(str(folder))}"
        )


def _changes(before: Any, now: Any, key: str = "") -> Iterator[str]:
    """Yield a text such as ``study.sizes was [32], is [64]`` for each value that differs."""
    if isinstance(before, dict) and isinstance(now, dict):
        for name in before | now:
            yield from _changes(before.get(name), now.get(name), f"{key}.{name}".strip("."))
    elif before != now:
        texts = (json.dumps(value, ensure_ascii=False) for value in (before, now))
        was, is_now = (text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…" for text in texts)
        yield f"{key} was {was}, is {is_now}"
