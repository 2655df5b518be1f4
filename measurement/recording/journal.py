"""The journal: everything measured is in a file before the next thing is measured.

While a recording is made, the folder ``NAME.partial`` beside it holds

    header.json      what is measured on what: a journal is continued only with the same
    journal.jsonl    rows of the recording's tables, in the order of measuring
    lock             held by the process at work

A process that is killed leaves them; the next with the same task goes on from the last whole line.
"""

import fcntl
import json
import os
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
from measurement.recording.recording import CELL, MEASURED
from study.cells import Cell

Row = dict[str, Any]

# Lines reach the kernel one by one, so that no death of the process loses one, and the disk at
# least this often: that is what a power failure may cost.
_SYNC_S = 1.0
# Lines that are no rows of a table.
_PHASE = "phase"
_PILOT = "pilot"
_ATTEMPT = "attempt"


class Journal:
    """Rows measured so far, on disk and in memory; threads may share it. Made by `open_journal`."""

    def __init__(self, folder: Path, header: Mapping[str, Any]) -> None:
        self._path = folder / "journal.jsonl"
        self.header = header
        self.rows: dict[str, list[Row]] = {name: [] for name in MEASURED}
        self.phases: list[Row] = []
        self.pilots: list[Row] = []
        self.attempts = 0
        self._one_at_a_time = threading.Lock()
        self._size = self._read()
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o666)
        os.ftruncate(self._file, self._size)
        self._synced_s = time.monotonic()
        self._append(_ATTEMPT, [])

    def add(self, table: str, *rows: Row) -> None:
        """Add rows to a table, all or none.

        They are on file when this returns; raises StudyError if they are not.
        """
        self._append(table, list(rows))

    def add_phase(self, row: Row) -> None:
        """Add how long a part of the measurement took."""
        self._append(_PHASE, [row])

    def add_pilot(self, row: Row) -> None:
        """Add a measurement that says how many samples a cell gets, and is none itself."""
        self._append(_PILOT, [row])

    def checks(self) -> dict[Cell, Row]:
        """Return the last check of every cell, in the order in which cells were first checked."""
        return {cell_of(row): row for row in self.rows["checks.csv"]}

    def frames(self) -> dict[str, pd.DataFrame]:
        """Return the recording's tables; only cells that passed to the end keep their samples."""
        checks = self.checks()
        rows = dict(self.rows) | {"checks.csv": list(checks.values())}
        rows["samples.csv.gz"] = [
            row for row in rows["samples.csv.gz"] if checks[cell_of(row)]["status"] == "passed"
        ]
        return {name: pd.DataFrame(rows[name], columns=list(MEASURED[name])) for name in MEASURED}

    def close(self) -> None:
        """Close the file; what is still added is refused."""
        with self._one_at_a_time:
            os.close(self._file)
            self._file = -1

    def _read(self) -> int:
        """Read what is there; return the length of its whole lines, in bytes."""
        if not self._path.exists():
            return 0
        data = self._path.read_bytes()
        size = data.rfind(b"\n") + 1  # a line that was cut off was not measured
        for line in data[:size].splitlines():
            self._take(*json.loads(line))
        return size

    def _take(self, kind: str, rows: list[Row]) -> None:
        if kind == _ATTEMPT:
            self.attempts += 1
        elif kind == _PHASE:
            self.phases += rows
        elif kind == _PILOT:
            self.pilots += rows
        else:
            self.rows[kind] += rows

    def _append(self, kind: str, rows: list[Row]) -> None:
        with self._one_at_a_time:
            self._append_line(kind, rows)

    def _append_line(self, kind: str, rows: list[Row]) -> None:
        line = (json.dumps([kind, rows], separators=(",", ":")) + "\n").encode()
        try:
            written = os.pwrite(self._file, line, self._size)
            if written < len(line):  # the disk is full: the next attempt says so
                os.pwrite(self._file, line[written:], self._size + written)
            if time.monotonic() - self._synced_s >= _SYNC_S:
                os.fdatasync(self._file)
                self._synced_s = time.monotonic()
        except OSError as error:
            raise StudyError(
                f"{self._path}: {error.strerror}; what was measured is kept: make room and run the "
                "same command again"
            ) from None
        self._size += len(line)
        self._take(kind, rows)


@contextmanager
def open_journal(out: Path, header: Mapping[str, Any]) -> Iterator[Journal]:
    """Open the journal of the recording `out`, new or left by a process that ended early.

    It stays when the block ends with an exception, unless nothing was measured, and goes when it
    ends without. `header` has a "task", which must be that of the journal left, and "facts" of the
    beginning, which are kept. Raises StudyError if another process is at work on it, or if it was
    begun with another task.
    """
    folder = out.with_name(f"{out.name}.partial")
    with _locked(folder, out):
        _compare_headers(folder, json.loads(json.dumps(header)))
        journal = Journal(folder, json.loads((folder / "header.json").read_text())["facts"])
        finished = False
        try:
            yield journal
            finished = True
        finally:
            journal.close()
            if finished or not any(journal.rows.values()):
                shutil.rmtree(folder)


def cell_of(row: Row) -> Cell:
    """Return the cell of a table's row."""
    return Cell(**{name: row[name] for name in CELL})


@contextmanager
def _locked(folder: Path, out: Path) -> Iterator[None]:
    """BlockingKernel the lock of a journal's folder, which is made if need be."""
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "lock"
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StudyError(
                    f"{out}: another process is recording there; let it end, or name another folder"
                ) from None
            # Whoever held it before may have finished, and removed the folder, in between.
            if not (path.exists() and os.path.samestat(os.fstat(lock), path.stat())):
                continue
            yield
            return
        finally:
            os.close(lock)


def _compare_headers(folder: Path, header: Row) -> None:
    """Write the header of a new journal; raises StudyError if an older one says otherwise."""
    path = folder / "header.json"
    if not path.exists():
        write_atomic(path, json.dumps(header, indent=2) + "\n")
        return
    begun = json.loads(path.read_text())["task"]
    task = header["task"]
    changed = [key for key in task if begun.get(key) != task[key]]
    if changed:
        raise StudyError(
            f"{folder}: holds an interrupted recording with other {', '.join(changed)}; finish it "
            "with those it was begun with, or delete that folder"
        )
