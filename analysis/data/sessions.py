"""Merging several recordings of one GPU model into one recording with several sessions.

A session is one uninterrupted measurement on one host.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path

import pandas as pd

from analysis.data.frames import concatenated
from base.errors import StudyError
from measurement.recording.consistency import check_distinct, fingerprint
from measurement.recording.files import check_sessions
from measurement.recording.recording import Recording

# Tables that depend only on sources and compiler: the first session's are used.
_OF_FIRST = ("builds", "instructions")


def together(recordings: Sequence[Recording]) -> Recording:
    """Return recordings as one; the column `session` numbers them from 0.

    It has the provenance of the first recording, with the GPUs of all recordings. Raise
    RecordingError if they differ in GPU model, study or sources, or contain the same samples.
    """
    first, *others = recordings
    if not others:
        return first
    check_sessions({recording.path: recording.provenance for recording in recordings})
    check_distinct((recording.path, fingerprint(recording.samples)) for recording in recordings)
    gpus = {gpu["device"]: gpu for one in reversed(recordings) for gpu in one.provenance["devices"]}
    devices = [gpus[device] for device in sorted(gpus)]
    frames = {}
    for field in fields(Recording):
        if field.type is pd.DataFrame and field.name not in _OF_FIRST:
            parts = (getattr(each, field.name) for each in recordings)
            numbered = [part.assign(session=part["session"] + at) for at, part in enumerate(parts)]
            frames[field.name] = concatenated([numbered[0][:0], *numbered])
    later = tuple(recording.provenance for recording in others)
    return replace(first, provenance=first.provenance | {"devices": devices}, later=later, **frames)


def folders_by_session(recordings: Mapping[str, Sequence[Path]]) -> dict[str, Path]:
    """Return the folder of every session by its name (`session_names`)."""
    return {
        name: folder
        for identifier, folders in recordings.items()
        for name, folder in zip(session_names(identifier, len(folders)), folders, strict=True)
    }


def session_names(identifier: str, count: int) -> list[str]:
    """Return the names of a recording's sessions: its id, numbered if there are several."""
    return [f"{identifier}.{at}" for at in range(count)] if count > 1 else [identifier]


def recordings_of(arguments: Sequence[str]) -> tuple[dict[str, list[Path]], dict[str, str]]:
    """Return from ``ID=PATH`` arguments the folders, and the reasons of missing recordings, by id.

    Folders of one id are sessions of one recording. A PATH to a JSON file is the result of a
    cluster job. It contains the path of a recording, or the reason why it is missing. Raise
    StudyError for an invalid argument.
    """
    paths: dict[str, list[Path]] = {}
    missing = {}
    for argument in arguments:
        identifier, _, path = argument.partition("=")
        if not (identifier and path):
            raise StudyError(
                f"--recording {argument!r} is invalid; use ID=PATH, like h100=data/recordings/h100"
            )
        if path.endswith(".json"):
            try:
                result = json.loads(Path(path).read_text())
            except (OSError, ValueError) as error:
                raise StudyError(f"{path} is unreadable ({error}); record it again") from None
            if "missing" in result:
                missing[identifier] = str(result["missing"])
                continue
            path = result["recording"]
        if Path(path) in paths.setdefault(identifier, []):
            raise StudyError(f"--recording {argument!r} is given twice; remove one")
        paths[identifier].append(Path(path))
    return paths, missing
