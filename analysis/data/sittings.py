"""Several recordings of one kind of card as one: each is a sitting.

A sitting is one uninterrupted measuring on one host.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path

import pandas as pd

from analysis.data.frames import concatenated
from measurement.recording.files import check_sittings
from measurement.recording.recording import Recording

# What follows from sources and compiler alone: that of the first sitting stands for all.
_OF_FIRST = ("builds", "instructions")


def together(recordings: Sequence[Recording]) -> Recording:
    """Return recordings as one, whose column `sitting` counts them from 0, in their order.

    Its provenance is that of the first, with all GPUs that any of them has. Raises RecordingError
    where they are of different cards, studies or sources.
    """
    first, *others = recordings
    if not others:
        return first
    check_sittings({recording.path: recording.provenance for recording in recordings})
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
    """Return frames one below the other, numbered as sittings."""
    numbered = [frame.assign(sitting=frame["sitting"] + at) for at, frame in enumerate(frames)]
    return concatenated([numbered[0][:0], *numbered])


def folders_by_sitting(recordings: Mapping[str, Sequence[Path]]) -> dict[str, Path]:
    """Return the folder of every sitting by its name: the recording's id, numbered if several."""
    return {
        name: folder
        for identifier, folders in recordings.items()
        for name, folder in zip(sitting_names(identifier, len(folders)), folders, strict=True)
    }


def sitting_names(identifier: str, count: int) -> list[str]:
    """Return the names of a recording's sittings: its id if there is one, else that numbered."""
    return [f"{identifier}.{at}" for at in range(count)] if count > 1 else [identifier]
