"""Several recordings of one GPU model as one: each is a session.

A session is one uninterrupted measuring on one host.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path

import pandas as pd

from analysis.data.frames import concatenated
from measurement.recording.files import check_sessions
from measurement.recording.recording import Recording

# What follows from sources and compiler alone: that of the first session stands for all.
_OF_FIRST = ("builds", "instructions")


def together(recordings: Sequence[Recording]) -> Recording:
    """Return recordings as one, whose column `session` counts them from 0, in their order.

    Its provenance is that of the first, with all GPUs that any of them has. Raises RecordingError
    where they are of different GPUs, studies or sources.
    """
    first, *others = recordings
    if not others:
        return first
    check_sessions({recording.path: recording.provenance for recording in recordings})
    cards = {
        card["device"]: card
        for recording in reversed(recordings)
        for card in recording.provenance["devices"]
    }
    devices = [cards[device] for device in sorted(cards)]
    frames = {
        field.name: _stacked([getattr(each, field.name) for each in recordings])
        for field in fields(Recording)
        if field.type is pd.DataFrame and field.name not in _OF_FIRST
    }
    later = tuple(recording.provenance for recording in others)
    return replace(first, provenance=first.provenance | {"devices": devices}, later=later, **frames)


def _stacked(frames: list[pd.DataFrame]) -> pd.DataFrame:
    """Return frames one below the other, numbered as sessions."""
    numbered = [frame.assign(session=frame["session"] + at) for at, frame in enumerate(frames)]
    return concatenated([numbered[0][:0], *numbered])


def folders_by_session(recordings: Mapping[str, Sequence[Path]]) -> dict[str, Path]:
    """Return the folder of every session by its name: the recording's id, numbered if several."""
    return {
        name: folder
        for identifier, folders in recordings.items()
        for name, folder in zip(session_names(identifier, len(folders)), folders, strict=True)
    }


def session_names(identifier: str, count: int) -> list[str]:
    """Return the names of a recording's sessions: its id if there is one, else that numbered."""
    return [f"{identifier}.{at}" for at in range(count)] if count > 1 else [identifier]
