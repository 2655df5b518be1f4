"""Adding tables to a recording later, with the recorded cubins, on a GPU of the same model.

Such values depend neither on other work of the GPU nor on the individual GPU.
"""

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
from measurement.recording.recording import TABLES, Recording


@dataclass(frozen=True)
class Bench:
    """A recording, a GPU of the same model as its device `label`, and its kernels in `folder`."""

    recorded: Recording
    device: CudaDevice
    label: str
    built: list[BuildResult]
    folder: Path


@contextmanager
def bench(
    path: Path, device_index: int, purpose: str, wanted: Callable[[Recording], Iterable[Build]]
) -> Iterator[Bench]:
    """Lock the GPU and rebuild the `wanted` kernels of a recording.

    Raise StudyError if the GPU has another name than the recorded one or is in use, or if a rebuilt
    kernel differs from the recorded one.
    """
    recorded = recording.read(path)
    device = select(device_index)[0]
    label = _label_of(recorded, device)
    with (
        only_run(device, lock_file(device), f"{purpose} for {path}"),
        tempfile.TemporaryDirectory(prefix="gemm-study-") as name,
    ):
        built = _build(recorded, wanted(recorded), device, Path(name))
        yield Bench(recorded, device, label, built, Path(name))


def _label_of(recorded: Recording, device: CudaDevice) -> str:
    """Return the recorded device with this GPU's name; raise StudyError if there is none."""
    devices = recorded.provenance["devices"]
    labels = [entry["device"] for entry in devices if entry["name"] == device.name]
    if not labels:
        names = ", ".join(entry["name"] for entry in devices) or "no GPU"
        raise StudyError(
            f"recording {recorded.path}: was made on {names}, GPU {device.index} is {device.name}; "
            "use a GPU of the same name"
        )
    return str(labels[0])


def _build(
    recorded: Recording, wanted: Iterable[Build], device: CudaDevice, folder: Path
) -> list[BuildResult]:
    """Build the kernels; raise StudyError if a cubin differs from the recorded one."""
    name = architecture(device.compute_capability)
    recorded_hashes = set(recorded.builds["cubin_sha256"])
    nvccs = ", ".join(sorted(set(recorded.builds["nvcc"])))
    built = build_all(find_nvcc(None), list(wanted), name, folder)
    for result in built:
        if result.cubin_sha256 not in recorded_hashes:
            raise StudyError(
                f"recording {recorded.path}: the build of {result.variant} differs (recorded: nvcc "
                f"{nvccs}, here: {result.nvcc}); use that compiler and the recorded sources"
            )
    return built


def add(bench: Bench, name: str, rows: list[dict[str, Any]], facts: dict[str, Any]) -> Recording:
    """Rewrite the recording: `rows` replace the rows of this device in the table `name`.

    `facts` are added to its provenance. Raise StudyError if there are no rows.
    """
    recorded, label = bench.recorded, bench.label
    if not rows:
        raise StudyError(
            f"recording {recorded.path}: this GPU can run none of its kernels; use another GPU"
        )
    tables = {each: recorded.table(each) for each in TABLES}
    before = recorded.table(name)
    others = before[before["device"] != label]
    new = pd.DataFrame(rows, columns=list(TABLES[name])).assign(device=label)
    new = new.astype(TABLES[name])
    tables[name] = pd.concat([others, new]) if len(others) else new
    return recording.write(recorded.path, recorded.provenance | facts, tables)
