"""Tables added to a recording afterwards, by a GPU of the same name and the cubins recorded.

They hold what does not depend on what else a GPU does, nor on which of its kind it is.
"""

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from base.errors import StudyError
from kernels.cubins.build import Build
from kernels.cubins.compile import BuildResult, architecture, build_all
from kernels.cubins.toolchain import find_nvcc
from measurement.devices.discovery import CudaDevice, select
from measurement.devices.locks import lock_file, only_run
from measurement.recording import recording
from measurement.recording.recording import OPTIONAL, TABLES, Recording


@dataclass(frozen=True)
class Bench:
    """A recording, a GPU of its kind (recorded as `label`) and its kernels, built in `folder`."""

    recorded: Recording
    device: CudaDevice
    label: str
    built: list[BuildResult]
    folder: Path


@contextmanager
def bench(
    path: Path,
    device_index: int,
    purpose: str,
    wanted: Callable[[Recording], Iterable[Build]],
) -> Iterator[Bench]:
    """Build what is `wanted` of a recording and keep other runs from the GPU meanwhile.

    Raises StudyError where the GPU is another than the recorded one or in use, or the kernels built
    here are not those recorded.
    """
    recorded = recording.read(path)
    device = select(device_index)[0]
    label = _label_of(recorded, device)
    with (
        only_run(device, lock_file(device), f"{purpose} for {path}"),
        tempfile.TemporaryDirectory(prefix="matmul-study-") as name,
    ):
        built = _build(recorded, wanted(recorded), device, Path(name))
        yield Bench(recorded, device, label, built, Path(name))


def _label_of(recorded: Recording, device: CudaDevice) -> str:
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


def _build(
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


def add(bench: Bench, name: str, rows: list[dict[str, Any]], facts: dict[str, Any]) -> Recording:
    """Write the recording with these rows of its device in table `name`, in place of older ones.

    `facts` come to its provenance. Raises StudyError where there are no rows.
    """
    recorded, label = bench.recorded, bench.label
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
