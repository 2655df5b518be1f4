"""Hardware counters of memory accesses, read by Nsight Compute (ncu), added to a recording.

Each kernel is launched once per dtype, at one size, from the recorded cubins. The counts do not
depend on other work of the GPU, so they may be added later, on another GPU of the same model.
"""

import csv
import io
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from base.errors import StudyError
from base.paths import ROOT, program
from kernels.catalog.entries import has_own_source, variant
from kernels.cubins.build import Build, build_for
from kernels.host_execution.counts import BLOCK_SIZES, COUNTED_SIZE
from kernels.products.elements import ELEMENTS
from kernels.theory.tiles import number_of
from measurement.devices.discovery import CudaDevice
from measurement.instruments.addition import add, bench
from measurement.instruments.check import builds_of, plan
from measurement.recorder import provenance
from measurement.recording.recording import Recording, plain_rows
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

    Raise StudyError if ncu or the recorded compiler is missing, the GPU model or a kernel's build
    differs from the recorded one, or ncu cannot read counters.
    """
    ncu = program("ncu", "Nsight Compute (CUDA toolkit)")

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
    """Return the cells to count: those of the recorded study that have recorded builds.

    They are in groups of one dtype and one block size, because ncu identifies kernels only by name.
    Variants that share another variant's kernel are omitted.
    """
    study = recorded.provenance["configuration"]
    columns = ["variant", "dtype", "block_size", "build"]
    built = {tuple(row.values()) for row in plain_rows(recorded.builds[columns])}
    groups: dict[tuple[object, ...], list[Cell]] = {}
    for dtype in ELEMENTS:
        asked = [one for one in (study, *study.get("series", [])) if dtype in one.get("dtypes", [])]
        names = dict.fromkeys(name for one in asked for name in one.get("variants", []))
        for name in names:
            planned = plan([name], list(BLOCK_SIZES), [str(COUNTED_SIZE)], (dtype,))
            cells = [cell for cell in planned if _build_of(cell) in built]
            if cells and has_own_source(name):
                blocks = [] if variant(name).fixed_blocks else [cell.block_size for cell in cells]
                groups.setdefault((dtype, *blocks), []).extend(cells)
    return list(groups.values())


def _build_of(cell: Cell) -> tuple[object, ...] | None:
    build = build_for(cell.product)
    return (build.variant, build.dtype, number_of(build.block_size), build.kind) if build else None


def rows_of(output: str, cells: list[Cell]) -> Iterator[dict[str, Any]]:
    """Yield a row of counters.csv per counter and launch in the output of ncu --csv.

    A launch belongs to the cell with its kernel name, threads per block and grid. Several cells may
    share these, as tile shapes of a persistent kernel do; they were launched in the order of
    `cells`. Kernels that prepare operands (`DeviceStep`) are not counted. Raise StudyError if there
    is no matching cell or a counter is missing.
    """
    start = output.find('"ID"')
    if start < 0:
        lines = [line for line in output.splitlines() if line.startswith("==ERROR==")]
        raise StudyError(
            f"ncu: {(lines or ['no counters in its output'])[0].removeprefix('==ERROR== ')}; check "
            "the permissions to read counters (NVIDIA: ERR_NVGPUCTRPERM)"
        )
    by_launch = defaultdict(list)
    for cell in cells:
        by_launch[cell.variant, *_geometry(cell)].append(cell)
    preparing = {step.kernel for cell in cells if (step := cell.product.device_step)}
    for launch in csv.DictReader(io.StringIO(output[start:])):
        if not launch["ID"] or launch["Kernel Name"] in preparing:  # no ID: the line of units
            continue
        given = launch["Kernel Name"], launch["Block Size"], launch["Grid Size"]
        if not by_launch[given]:
            raise StudyError(f"ncu: unexpected launch {' '.join(given)}; use another release")
        cell = by_launch[given].pop(0)
        kernel = cell.product.row()
        for metric in METRICS:
            text = launch.get(metric) or ""
            if not text.replace(",", "").replace(".", "").isdigit():
                raise StudyError(
                    f"ncu: {metric} is {text or 'missing'} for {cell}; use another release"
                )
            yield {**kernel, "metric": metric, "value": float(text.replace(",", ""))}


def _geometry(cell: Cell) -> tuple[str, str]:
    launch = cell.product.launch
    return str((*launch.threads, 1)), str(launch.grid)


def _profile(ncu: Path, cells: list[Cell], device: CudaDevice, cubins: Path) -> str:
    """Run each cell of a group once under ncu; return ncu's output."""
    variants = list(dict.fromkeys(cell.variant for cell in cells))
    options = ["--csv", "--page", "raw", "--metrics", ",".join(METRICS)]
    options += ["--clock-control", "none"]  # the study never changes a GPU's settings
    check = [sys.executable, "-m", "measurement.instruments.check", "--device", str(device.index)]
    check += ["--cubins", str(cubins), "--variants", *variants, "--sizes", str(COUNTED_SIZE)]
    asked = {cell.block_size for cell in cells}
    blocks = [size for size in BLOCK_SIZES if size in asked] or BLOCK_SIZES
    check += ["--block-sizes", *map(str, blocks), "--dtypes", cells[0].dtype]
    done = subprocess.run(
        [ncu, *options, *check], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode != 0 and '"ID"' not in done.stdout:
        return done.stdout + done.stderr  # contains ncu's error
    return done.stdout


def _version(ncu: Path) -> str:
    done = subprocess.run([ncu, "--version"], capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("Version")]
    return lines[0].removeprefix("Version ").split()[0] if lines else "unknown"
