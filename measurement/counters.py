"""Hardware counters of memory accesses, read by Nsight Compute (ncu), added to a recording.

One launch a kernel, at one order, of the very cubins that were recorded. Counts do not depend on
what else a card does, so they may be taken at another time, on another card of the same name.
"""

import csv
import dataclasses
import io
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from kernels.build import architecture, build_all
from kernels.catalog import variant
from kernels.counts import BLOCK_SIZES, ORDER
from kernels.toolchain import find_nvcc
from measurement import provenance, recording
from measurement.cells import Cell
from measurement.check import builds_of, plan
from measurement.discovery import CudaDevice, select
from measurement.errors import StudyError
from measurement.locks import lock_file, only_run
from measurement.recording import KERNEL, OPTIONAL, TABLES, Recording

ROOT = Path(__file__).resolve().parent.parent
# Sectors and requests of global memory, wavefronts, requests and bank conflicts of shared memory.
METRICS = [
    name.format(operation)
    for name in (
        "l1tex__t_sectors_pipe_lsu_mem_global_op_{}.sum",
        "l1tex__t_requests_pipe_lsu_mem_global_op_{}.sum",
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum",
        "smsp__sass_inst_executed_op_shared_{}.sum",
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum",
    )
    for operation in ("ld", "st")
]
_TABLE = "counters.csv"


def count(path: Path, device_index: int) -> Recording:
    """Add the counters of the recording's kernels, read on a GPU of this host; return it.

    Raises StudyError where ncu or the recorded compiler is missing, the GPU is another than the
    recorded one, the kernels built here are not those recorded, or ncu cannot read counters.
    """
    ncu = shutil.which("ncu")
    if not ncu:
        raise StudyError("ncu: not found on PATH; install Nsight Compute (CUDA toolkit)")
    recorded = recording.read(path)
    device = select(device_index)[0]
    label = _label(recorded, device)
    study = recorded.provenance["configuration"]
    # A variant that runs another one's kernel has the counters of that.
    own = [name for name in study["variants"] if variant(name).kernel == name]
    cells = plan(own, list(BLOCK_SIZES), [str(ORDER)])
    with (
        only_run(device, lock_file(device), f"counting for {path}"),
        tempfile.TemporaryDirectory(prefix="matmul-study-") as folder,
    ):
        _build(recorded, cells, device, Path(folder))
        output = _profile(ncu, cells, device, Path(folder))
    rows = [{"device": label, **row} for row in rows_of(output, cells)]
    tables = {name: recorded.table(name) for name in TABLES}
    others = recorded.counters[recorded.counters["device"] != label]
    new = pd.DataFrame(rows, columns=list(OPTIONAL[_TABLE])).astype(OPTIONAL[_TABLE])
    tables[_TABLE] = pd.concat([others, new]) if len(others) else new
    facts = {"counted_utc": provenance.utc_now(), "ncu": _version(ncu)}
    made = recording.write(path, recorded.provenance | {"counters": facts}, tables)
    print(f"{path}: {len(rows)} counters of {len(rows) // len(METRICS)} kernels", file=sys.stderr)
    return made


def rows_of(output: str, cells: list[Cell]) -> Iterator[dict[str, Any]]:
    """Yield a row of counters.csv for each counter of each launch in the output of ncu --csv.

    A launch belongs to the cell with its name and its threads a block. Raises StudyError where
    there is none, or where a counter is missing.
    """
    start = output.find('"ID"')
    if start < 0:
        lines = [line for line in output.splitlines() if line.startswith("==ERROR==")]
        raise StudyError(
            f"ncu: {(lines or ['no counters in its output'])[0].removeprefix('==ERROR== ')}; "
            "reading counters may need privileges (NVIDIA: ERR_NVGPUCTRPERM)"
        )
    by_launch = {(cell.variant, _threads(cell)): cell for cell in cells}
    for launch in csv.DictReader(io.StringIO(output[start:])):
        if not launch["ID"]:  # the line of units
            continue
        cell = by_launch.get((launch["Kernel Name"], launch["Block Size"]))
        if cell is None:
            raise StudyError(
                f"ncu: {launch['Kernel Name']} {launch['Block Size']} was not asked for"
            )
        fields = dataclasses.asdict(cell)
        kernel = {name: fields[name] for name in KERNEL if name != "device"}
        for metric in METRICS:
            text = launch.get(metric) or ""
            if not text.replace(",", "").replace(".", "").isdigit():
                raise StudyError(f"ncu: {metric} is {text or 'missing'} for {cell}")
            yield {**kernel, "metric": metric, "value": float(text.replace(",", ""))}


def _threads(cell: Cell) -> str:
    width, height = variant(cell.variant).launch(cell.shape, cell.block_size).threads
    return f"({width}, {height}, 1)"


def _label(recorded: Recording, device: CudaDevice) -> str:
    """Return the recorded device that this GPU is of the kind of."""
    devices = recorded.provenance["devices"]
    alike = [entry["device"] for entry in devices if entry["name"] == device.name]
    if not alike:
        names = ", ".join(entry["name"] for entry in devices) or "no GPU"
        raise StudyError(
            f"recording {recorded.path}: was made on {names}, GPU {device.index} is {device.name}; "
            "count on a card of the same name"
        )
    return str(alike[0])


def _build(recorded: Recording, cells: list[Cell], device: CudaDevice, folder: Path) -> None:
    """Build the kernels; raises StudyError if one is not byte for byte that of the recording."""
    name = architecture(device.compute_capability)
    workers = len(os.sched_getaffinity(0))
    known = set(recorded.builds["cubin_sha256"])
    nvccs = ", ".join(sorted(set(recorded.builds["nvcc"])))
    for result in build_all(find_nvcc(None), builds_of(cells), name, folder, workers):
        if result.cubin_sha256 not in known:
            raise StudyError(
                f"recording {recorded.path}: its {result.variant} was built otherwise, by nvcc "
                f"{nvccs} (here: {result.nvcc}); use that compiler and the recorded sources"
            )


def _profile(ncu: str, cells: list[Cell], device: CudaDevice, cubins: Path) -> str:
    """Run every cell once below ncu and return what it printed."""
    variants = list(dict.fromkeys(cell.variant for cell in cells))
    options = ["--csv", "--page", "raw", "--metrics", ",".join(METRICS)]
    options += ["--clock-control", "none"]  # a card's settings are never changed
    check = [sys.executable, "-m", "measurement.check", "--device", str(device.index)]
    check += ["--cubins", str(cubins), "--variants", *variants, "--sizes", str(ORDER)]
    check += ["--block-sizes", *map(str, BLOCK_SIZES)]
    done = subprocess.run(
        [ncu, *options, *check], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode != 0 and '"ID"' not in done.stdout:
        return done.stdout + done.stderr  # its complaint is found there
    return done.stdout


def _version(ncu: str) -> str:
    done = subprocess.run([ncu, "--version"], capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("Version")]
    return lines[0].removeprefix("Version ").split()[0] if lines else "unknown"
