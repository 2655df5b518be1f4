"""Hardware counters of memory accesses, read by Nsight Compute (ncu), added to a recording.

One launch a kernel and type of elements, at one order, of the very cubins that were recorded.
Counts do not depend on what else a GPU does, so they may be taken at another time, on another GPU
of the same name.
"""

import csv
import dataclasses
import io
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from base.errors import StudyError
from base.paths import ROOT
from kernels.catalog.entries import variant
from kernels.cubins.build import Build, build_for
from kernels.host_execution.counts import BLOCK_SIZES, ORDER
from kernels.products.elements import ELEMENTS
from measurement.devices.discovery import CudaDevice
from measurement.instruments.addition import add, bench
from measurement.instruments.check import builds_of, plan
from measurement.recorder import provenance
from measurement.recording.recording import KERNEL, Recording
from study.cells import Cell

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

    def wanted(recorded: Recording) -> list[Build]:
        return builds_of([cell for cells in cells_of(recorded) for cell in cells])

    rows: list[dict[str, Any]] = []
    with bench(path, device_index, "counting", wanted) as place:
        for cells in cells_of(place.recorded):
            rows += rows_of(_profile(ncu, cells, place.device, place.folder), cells)
    facts = {"counters": {"counted_utc": provenance.utc_now(), "ncu": _version(ncu)}}
    made = add(place, _TABLE, rows, facts)
    print(f"{path}: {len(rows)} counters of {len(rows) // len(METRICS)} kernels", file=sys.stderr)
    return made


def cells_of(recorded: Recording) -> list[list[Cell]]:
    """Return the cells that are counted: those of the recorded study whose builds were recorded.

    They are in groups of one type of elements, as ncu tells kernels by their names alone, in which
    all variants that work in blocks do so in the same. A variant that runs another one's kernel has
    the counters of that.
    """
    study = recorded.provenance["configuration"]
    columns = ["variant", "dtype", "block_size", "build"]
    builds = recorded.builds[columns].astype(object).where(recorded.builds[columns].notna(), None)
    built = set(builds.itertuples(index=False, name=None))
    found: dict[tuple[object, ...], list[Cell]] = {}
    for dtype in ELEMENTS:
        asked = [one for one in (study, *study.get("series", [])) if dtype in one.get("dtypes", [])]
        names = dict.fromkeys(name for one in asked for name in one.get("variants", []))
        for name in names:
            planned = plan([name], list(BLOCK_SIZES), [str(ORDER)], (dtype,))
            cells = [cell for cell in planned if _build_of(cell) in built]
            if cells and variant(name).kernel == name:
                blocks = [] if variant(name).has_tiles else [cell.block_size for cell in cells]
                found.setdefault((dtype, *blocks), []).extend(cells)
    return list(found.values())


def _build_of(cell: Cell) -> tuple[object, ...] | None:
    build = build_for(cell.variant, cell.shape, cell.block_size, cell.dtype)
    return (build.variant, build.dtype, build.block_size, build.kind) if build else None


def rows_of(output: str, cells: list[Cell]) -> Iterator[dict[str, Any]]:
    """Yield a row of counters.csv for each counter of each launch in the output of ncu --csv.

    A launch belongs to the cell with its name, its threads a block and its grid. Raises StudyError
    where there is none, or where a counter is missing.
    """
    start = output.find('"ID"')
    if start < 0:
        lines = [line for line in output.splitlines() if line.startswith("==ERROR==")]
        raise StudyError(
            f"ncu: {(lines or ['no counters in its output'])[0].removeprefix('==ERROR== ')}; "
            "reading counters may need privileges (NVIDIA: ERR_NVGPUCTRPERM)"
        )
    by_launch = {(cell.variant, *_geometry(cell)): cell for cell in cells}
    for launch in csv.DictReader(io.StringIO(output[start:])):
        if not launch["ID"]:  # the line of units
            continue
        given = launch["Kernel Name"], launch["Block Size"], launch["Grid Size"]
        cell = by_launch.get(given)
        if cell is None:
            raise StudyError(f"ncu: {' '.join(given)} was not asked for")
        fields = dataclasses.asdict(cell)
        kernel = {name: fields[name] for name in KERNEL if name != "device"}
        for metric in METRICS:
            text = launch.get(metric) or ""
            if not text.replace(",", "").replace(".", "").isdigit():
                raise StudyError(f"ncu: {metric} is {text or 'missing'} for {cell}")
            yield {**kernel, "metric": metric, "value": float(text.replace(",", ""))}


def _geometry(cell: Cell) -> tuple[str, str]:
    """Return threads a block and grid of a cell's launch, as ncu writes them."""
    launch = variant(cell.variant).launch(cell.shape, cell.block_size)
    return str((*launch.threads, 1)), str(launch.grid)


def _profile(ncu: str, cells: list[Cell], device: CudaDevice, cubins: Path) -> str:
    """Run the cells of a group once below ncu and return what it printed."""
    variants = list(dict.fromkeys(cell.variant for cell in cells))
    options = ["--csv", "--page", "raw", "--metrics", ",".join(METRICS)]
    options += ["--clock-control", "none"]  # a GPU's settings are never changed
    check = [sys.executable, "-m", "measurement.instruments.check", "--device", str(device.index)]
    check += ["--cubins", str(cubins), "--variants", *variants, "--sizes", str(ORDER)]
    asked = {cell.block_size for cell in cells}
    blocks = [size for size in BLOCK_SIZES if size in asked] or BLOCK_SIZES
    check += ["--block-sizes", *map(str, blocks), "--dtypes", cells[0].dtype]
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
