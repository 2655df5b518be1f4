"""Making a recording of this host: for its GPUs and its CPU, gate and samples; then provenance."""

import os
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from cpu_reference.library import Library, find_gcc, gcc_version
from kernels.build import BuildResult, architecture, build_all, read_result
from kernels.catalog import builds as builds_of
from kernels.toolchain import find_nvcc
from measurement import provenance, recording
from measurement.cells import CPU, Cell, cpu_cells, gpu_cells
from measurement.cpu import CpuSession
from measurement.discovery import CudaDevice, select
from measurement.gpu import GpuSession
from measurement.matrices import Inputs
from measurement.progress import Progress, TimeLeft
from measurement.protocol import Check, Protocol, Sample, gate, take_samples
from measurement.session import Session


@dataclass
class Measured:
    """What has been measured so far."""

    samples: list[Sample] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)

    def fail(self, failed: Check) -> None:
        """Replace the check of a cell that failed while it was sampled; drop its samples."""
        self.checks = [failed if check.cell == failed.cell else check for check in self.checks]
        self.samples = [sample for sample in self.samples if sample.cell != failed.cell]


def record(
    config: dict[str, Any],
    wanted: str | int,
    out: Path,
    cubins: Path | None,
    commit: str | None = None,
) -> recording.Recording:
    """Measure this host's CPU and the GPUs that `wanted` names; write the recording to `out`.

    `cubins` holds cubins built beforehand, ``sm_XX/STEM.cubin``; None builds what is needed.
    `commit` is that of a tree that was copied here without its history. Raises StudyError
    before anything is measured where a compiler, a GPU or a cubin is missing.
    """
    study = config["study"]
    started = provenance.utc_now()
    recording.check_target(out)
    devices = select(wanted)
    gcc = find_gcc()
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="matmul-study-") as folder:
        work = Path(folder)
        library = Library(gcc, work)
        if cubins is None:
            cubins = work
            _build(config, devices, cubins)
        builds = _read_builds(study, devices, cubins)
        orders = [*study["cpu"]["sizes"], *study["sizes"], *study["holdout_sizes"]]
        inputs = Inputs(orders if devices else study["cpu"]["sizes"], study["seed"])
        measured = Measured()
        for device in devices:
            label = f"gpu{device.index}"
            with GpuSession(device, inputs, builds, cubins) as session:
                _measure(session, gpu_cells(study, label), inputs, study, measured, label)
        _measure(CpuSession(library, inputs), cpu_cells(study), inputs, study, measured, CPU)
    facts = {
        "format": recording.FORMAT,
        "simulated": False,
        "started_utc": started,
        "finished_utc": provenance.utc_now(),
        "host": provenance.host(),
        "devices": [provenance.gpu(device) for device in devices],
        "software": provenance.software(gcc_version(gcc), {build.nvcc for build in builds}),
        "compile": provenance.compile_flags(),
        "git": provenance.git(commit),
        "configuration": study,
        "seed": study["seed"],
        "sources": provenance.sources(
            study["variants"] if devices else [], study["cpu"]["variants"]
        ),
    }
    return recording.write(
        out,
        facts,
        _table("samples.csv.gz", [sample.row() for sample in measured.samples]),
        _table("checks.csv", [check.row() for check in measured.checks]),
        _table("builds.csv", [asdict(build) for build in builds]),
    )


def _table(name: str, rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Return rows as a frame with the columns of a recording's table, also where there are none."""
    return pd.DataFrame(rows, columns=list(recording.TABLES[name]))


def _build(config: dict[str, Any], devices: list[CudaDevice], cubins: Path) -> None:
    """Compile what the study needs for each kind of GPU."""
    for name in _architectures(devices):
        wanted = builds_of(config["study"])
        print(f"building {len(wanted)} kernels for {name}", file=sys.stderr, flush=True)
        nvcc = find_nvcc(config.get("toolchain", {}).get("nvcc"))
        build_all(nvcc, wanted, name, cubins, workers=len(os.sched_getaffinity(0)))


def _read_builds(
    study: dict[str, Any], devices: list[CudaDevice], cubins: Path
) -> list[BuildResult]:
    return [
        read_result(cubins / name / f"{build.stem}.cubin")
        for name in _architectures(devices)
        for build in builds_of(study)
    ]


def _architectures(devices: list[CudaDevice]) -> list[str]:
    return sorted({architecture(device.compute_capability) for device in devices})


def _measure(
    session: Session,
    cells: list[Cell],
    inputs: Inputs,
    study: dict[str, Any],
    measured: Measured,
    label: str,
) -> None:
    """Gate the cells of one device, then sample those that passed; add all to `measured`."""
    protocol = _protocol(study["protocol"], label)
    estimate = TimeLeft(protocol)
    passes = _gate_all(session, cells, inputs, measured, estimate, label)
    progress = Progress(f"{label}: measuring", len(passes))
    taken = {sample.cell: 0 for sample in passes}
    for step in take_samples(session, passes, protocol, study["seed"]):
        if isinstance(step, Check):
            measured.fail(step)
            del taken[step.cell]
            continue
        sample, finished = step
        measured.samples.append(sample)
        taken[sample.cell] += 1
        estimate.saw(sample.cell, sample.timing.total_s, taken[sample.cell])
        if finished:
            del taken[sample.cell]
        progress.show(sample.cell, len(passes) - len(taken), lambda: estimate.sampling_s(taken))
    progress.end()


def _gate_all(
    session: Session,
    cells: list[Cell],
    inputs: Inputs,
    measured: Measured,
    estimate: TimeLeft,
    label: str,
) -> list[Sample]:
    """Run the gate over all cells of a device; return the first passes of those that passed."""
    progress = Progress(f"{label}: checking", len(cells))
    passes: list[Sample] = []
    left = list(cells)

    def announce(cell: Cell) -> None:
        progress.show(cell, len(cells) - len(left), lambda: estimate.first_passes_s(left))

    for check, sample in gate(session, cells, inputs, announce):
        measured.checks.append(check)
        left.remove(check.cell)
        if sample:
            passes.append(sample)
            estimate.saw(sample.cell, sample.timing.total_s, 0)
    progress.end()
    return passes


def _protocol(settings: dict[str, Any], label: str) -> Protocol:
    """Return the stopping rule of a device; CPU and GPU cells have budgets of their own."""
    return Protocol(
        settings["confidence"],
        settings["relative_half_width"],
        settings["min_samples"],
        settings["max_samples"],
        settings["cpu_cell_budget_s" if label == CPU else "gpu_cell_budget_s"],
    )
