"""What a recording must be to travel with the project, and the gallery of those that do."""

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

The recordings in `data/recordings`, as printed by `python -m measurement gallery`.
[Add a GPU](../how-to/add-a-gpu.md#publish-the-recording) describes how to add one. Cite a recording
by the SHA-256 of its `MANIFEST.sha256`, which contains the hash of every other file.

| folder | GPUs | host | measured | cells passed | SHA-256 |
| --- | --- | --- | --- | ---: | --- |"""


def validate(folder: Path) -> int:
    """Print what the recording in a folder is, or a line for each fault; return 2 with faults."""
    try:
        recording = read(folder)
    except RecordingError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    found = faults(recording)
    for fault in found:
        print(f"error: recording {folder}: {fault}", file=sys.stderr)
    if not found:
        print(description(recording))
    return 2 if found else 0


def faults(recording: Recording) -> list[str]:
    """Return what keeps a recording from being added, each with its remedy; none if nothing."""
    own = set(files_of(recording.path))
    git, statuses = recording.provenance["git"], recording.checks["status"]
    found = [
        f"{path.name} is no file of a recording; remove it"
        for path in sorted(recording.path.iterdir())
        if path.name not in own
    ]
    if recording.provenance["simulated"]:
        found.append("its times were computed; record a GPU")
    if not git["commit"]:
        found.append("its commit is not known; record with --commit, or from a git checkout")
    if git["dirty"]:
        found.append("its tree was changed since the commit; commit first, and record again")
    if not (statuses == "passed").any():
        found.append("none of its cells passed; see checks.csv for the reasons")
    return found


def description(recording: Recording) -> str:
    """Return GPUs, host, commit, time, cells, and the hash by which a recording is cited."""
    facts, counts = recording.provenance, recording.checks["status"].value_counts()
    cells = [f"{count} {status.replace('_', ' ')}" for status, count in counts.items()]
    told = {
        "cards": _cards(recording) + (", measured at once" if facts.get("at_once") else ""),
        "host": _host(recording),
        "commit": facts["git"]["commit"],
        "measured": f"{facts['started_utc']} to {facts['finished_utc']}",
        "study": facts["configuration"].get("scope", "full"),
        "cells": ", ".join(cells),
        "samples": len(recording.samples),
        "SHA-256": sha256(recording.path / MANIFEST),
    }
    return "\n".join([f"{recording.path}: valid", *(f"  {k:<9} {v}" for k, v in told.items())])


def committed() -> list[Recording]:
    """Read every recording that travels with the project; raises RecordingError."""
    return [read(path) for path in sorted(GALLERY.iterdir()) if path.is_dir()]


def gallery(recordings: Iterable[Recording]) -> str:
    """Return recordings as a Markdown page."""
    return "\n".join([_HEADING, *map(_row, recordings)])


def _row(recording: Recording) -> str:
    passed = int((recording.checks["status"] == "passed").sum())
    day = recording.provenance["finished_utc"][:10]
    hashed = f"`{sha256(recording.path / MANIFEST)}`"
    cells = [recording.path.name, _cards(recording), _host(recording), day, str(passed), hashed]
    return f"| {' | '.join(cells)} |"


def _cards(recording: Recording) -> str:
    names = Counter(card["name"] for card in recording.provenance["devices"])
    return ", ".join(f"{count} × {name}" for name, count in names.items()) or "none"


def _host(recording: Recording) -> str:
    host = recording.provenance["host"]
    return f"{host['cpu_model']}, {host['usable_cpus']} CPUs"
