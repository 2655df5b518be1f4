"""The requirements of recordings that are committed, and the gallery of these recordings."""

import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from base.files import sha256
from base.paths import ROOT
from measurement.recording.files import files_of
from measurement.recording.recording import MANIFEST, Recording, RecordingError, read

GALLERY = ROOT / "data" / "recordings"
_HEADING = """# Recordings

This page lists the recordings in `data/recordings`. `gemm-study document recordings` prints it.
[Add a GPU](../how-to/add-a-gpu.md#publish-the-recording) describes how to add one. Cite a recording
by the SHA-256 of its `MANIFEST.sha256`, which contains the hash of every other file.

| folder | GPUs | host | measured | cells passed | SHA-256 |
| --- | --- | --- | --- | ---: | --- |"""


def validate(folder: Path) -> int:
    """Print a summary of the recording in a folder, or one line per fault; return 2 if faulty."""
    try:
        recording = read(folder)
    except RecordingError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    problems = faults(recording)
    for fault in problems:
        print(f"error: recording {folder}: {fault}", file=sys.stderr)
    if not problems:
        print(description(recording))
    return 2 if problems else 0


def faults(recording: Recording) -> list[str]:
    """Return the faults that prevent a recording from being committed, each with its remedy."""
    expected = set(files_of(recording.path))
    git, statuses = recording.provenance["git"], recording.checks["status"]
    problems = [
        f"{path.name} does not belong to a recording; remove it"
        for path in sorted(recording.path.iterdir())
        if path.name not in expected
    ]
    if recording.provenance["simulated"]:
        problems.append("its times are simulated; record a GPU")
    if not git["commit"]:
        problems.append("its commit is unknown; record with --commit, or from a git checkout")
    if git["dirty"]:
        files = f" of {', '.join(git['changed'][:3])}" if git.get("changed") else ""
        remedy = "commit them and record again"
        problems.append(f"it was recorded with uncommitted changes{files}; {remedy}")
    if not (statuses == "passed").any():
        problems.append("none of its cells passed; see checks.csv for the reasons")
    return problems


def description(recording: Recording) -> str:
    """Return a summary: GPUs, host, commit, time, cells, and the SHA-256 for citations."""
    facts, counts = recording.provenance, recording.checks["status"].value_counts()
    cells = [f"{count} {status.replace('_', ' ')}" for status, count in counts.items()]
    summary = {
        "GPUs": _gpus(recording) + (", measured at once" if facts.get("at_once") else ""),
        "host": _host(recording),
        "commit": facts["git"]["commit"],
        "measured": f"{facts['started_utc']} to {facts['finished_utc']}",
        "study": facts["configuration"].get("scope", "full"),
        "cells": ", ".join(cells),
        "samples": len(recording.samples),
        "SHA-256": sha256(recording.path / MANIFEST),
    }
    return "\n".join([f"{recording.path}: valid", *(f"  {k:<9} {v}" for k, v in summary.items())])


def committed() -> list[Recording]:
    """Read all committed recordings; raise RecordingError."""
    return [read(path) for path in sorted(GALLERY.iterdir()) if path.is_dir()]


def gallery(recordings: Iterable[Recording]) -> str:
    """Return a Markdown page that describes recordings."""
    return "\n".join([_HEADING, *map(_row, recordings)])


def _row(recording: Recording) -> str:
    passed = int((recording.checks["status"] == "passed").sum())
    day = recording.provenance["finished_utc"][:10]
    hashed = f"`{sha256(recording.path / MANIFEST)}`"
    cells = [recording.path.name, _gpus(recording), _host(recording), day, str(passed), hashed]
    return f"| {' | '.join(cells)} |"


def _gpus(recording: Recording) -> str:
    names = Counter(gpu["name"] for gpu in recording.provenance["devices"])
    return ", ".join(f"{count} × {name}" for name, count in names.items()) or "none"


def _host(recording: Recording) -> str:
    host = recording.provenance["host"]
    return f"{host['cpu_model']}, {host['usable_cpus']} CPUs"
