"""Tables added to a recording afterwards, by a card of the same name and the cubins recorded.

They hold what does not depend on what else a card does, nor on which of its kind it is.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from kernels.build import BuildResult, architecture, build_all
from kernels.cubins import Build
from kernels.toolchain import find_nvcc
from measurement import recording
from measurement.discovery import CudaDevice
from measurement.errors import StudyError
from measurement.recording import OPTIONAL, TABLES, Recording


def label_of(recorded: Recording, device: CudaDevice) -> str:
    """Return the recorded device that this GPU is of the kind of; raises StudyError."""
    devices = recorded.provenance["devices"]
    alike = [entry["device"] for entry in devices if entry["name"] == device.name]
    if not alike:
        names = ", ".join(entry["name"] for entry in devices) or "no GPU"
        raise StudyError(
            f"recording {recorded.path}: was made on {names}, GPU {device.index} is {device.name}; "
            "take a card of the same name"
        )
    return str(alike[0])


def build(
    recorded: Recording, wanted: Iterable[Build], device: CudaDevice, folder: Path
) -> list[BuildResult]:
    """Build kernels; raises StudyError if one is not byte for byte that of the recording."""
    name = architecture(device.compute_capability)
    workers = len(os.sched_getaffinity(0))
    known = set(recorded.builds["cubin_sha256"])
    nvccs = ", ".join(sorted(set(recorded.builds["nvcc"])))
    built = build_all(find_nvcc(None), list(wanted), name, folder, workers)
    for result in built:
        if result.cubin_sha256 not in known:
            raise StudyError(
                f"recording {recorded.path}: its {result.variant} was built otherwise, by nvcc "
                f"{nvccs} (here: {result.nvcc}); use that compiler and the recorded sources"
            )
    return built


def add(
    recorded: Recording, label: str, name: str, rows: list[dict[str, Any]], facts: dict[str, Any]
) -> Recording:
    """Write the recording with these rows of a device in the table `name`, in place of older ones.

    `facts` come to its provenance. Raises StudyError where there are no rows.
    """
    if not rows:
        raise StudyError(
            f"recording {recorded.path}: no kernel of it could be run; nothing was changed"
        )
    tables = {each: recorded.table(each) for each in TABLES}
    tables |= {each: recorded.table(each) for each in OPTIONAL if len(recorded.table(each))}
    before = recorded.table(name)
    others = before[before["device"] != label]
    new = pd.DataFrame(rows, columns=list(OPTIONAL[name])).assign(device=label)
    new = new.astype(OPTIONAL[name])
    tables[name] = pd.concat([others, new]) if len(others) else new
    return recording.write(recorded.path, recorded.provenance | facts, tables)
