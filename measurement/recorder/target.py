"""The folder of a recording: a finished recording in it is kept, or replaced if requested."""

import json
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain, count
from pathlib import Path

from base.errors import StudyError
from base.files import holds_recording
from cpu_reference.cores import usable_threads
from measurement.devices.discovery import CudaDevice
from measurement.recorder import provenance
from measurement.recording import recording
from measurement.recording.journal import journal_folder
from study.cells import Cell, cpu_cells, gpu_cells
from study.config import Study

_KEEP = "name another folder, or move the recording away"


def unused(out: Path) -> Path:
    """Return `out`, or the first of `out`-2, `out`-3 … that contains no finished recording."""
    numbered = (out.with_name(f"{out.name}-{number}") for number in count(2))
    return next(path for path in chain([out], numbered) if not holds_recording(path))


def check_target(out: Path, study: Study, devices: Sequence[CudaDevice], overwrite: bool) -> None:
    """Raise StudyError if recording this study into `out` would destroy something.

    A finished recording is replaced only with `overwrite`, and only by a recording of the same CPU
    and GPU models that contains all of its configurations. An interrupted recording that was
    already written to `out` is resumed.
    """
    recording.check_target(out)
    if not holds_recording(out) or _is_written(out):
        return
    if not overwrite:
        raise StudyError(
            f"{out}: contains a finished recording; name another folder, or add --overwrite"
        )
    former = recording.read(out)
    host, former_host = provenance.host(), former.provenance["host"]
    former_names = sorted(device["name"] for device in former.provenance["devices"])
    if any(former_host[key] != host[key] for key in ("cpu_model", "logical_cpus")):
        raise StudyError(f"{out}: contains a recording of another host; {_KEEP}")
    if former_names != sorted(device.name for device in devices):
        shown = ", ".join(former_names) or "no GPU"
        raise StudyError(f"{out}: contains a recording of {shown}; {_KEEP}")
    cells = {cell for device in devices for cell in gpu_cells(study, device.label)}
    recorded = {Cell.of(row) for row in recording.plain_rows(former.checks)}
    if lost := recorded - cells - {*cpu_cells(study, usable_threads())}:
        raise StudyError(
            f"{out}: contains {len(lost)} configurations that this study lacks, such as "
            f"{min(map(str, lost))}; {_KEEP}"
        )


def _is_written(out: Path) -> bool:
    """Return whether a recorder wrote `out` but was killed before it removed its journal."""
    with suppress(OSError, ValueError, KeyError):
        header = json.loads((journal_folder(out) / "header.json").read_text())
        written = json.loads((out / "provenance.json").read_text())
        return bool(header["facts"]["started_utc"] == written["started_utc"])
    return False
