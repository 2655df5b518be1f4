"""The recorder, which measures this host's GPUs and CPU and writes the recording."""

import platform
import sys
import tempfile
from collections import ChainMap
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from base import version
from cpu_reference.cores import usable_threads
from cpu_reference.library import build_library, find_gcc, gcc_version
from kernels.catalog.variant import Variant
from kernels.cubins.build import Build
from kernels.cubins.compile import BuildResult, architecture, build_all, read_result
from kernels.cubins.toolchain import find_nvcc
from kernels.products.matrices import Inputs, check_memory
from kernels.products.references import CACHE
from measurement.devices.discovery import CudaDevice
from measurement.devices.locks import only_run
from measurement.devices.session import DeviceSession
from measurement.recorder import provenance
from measurement.recorder.at_once import Meet, run_at_once
from measurement.recorder.hardware import Host
from measurement.recorder.target import check_target
from measurement.recording import recording
from measurement.recording.journal import ATTEMPTS, IMPORTS, PHASES, Journal, open_journal
from measurement.recording.provenance_schema import FORMAT, lines_sha256
from measurement.sampling.interference import interference_cells, measure_interference
from measurement.sampling.measure import DeviceMeasurement
from measurement.sampling.worker import Opening
from study.cells import CPU, Cell, cpu_cells, gpu_cells, problems
from study.config import Config, Study
from study.plan import builds as builds_of
from study.plan import calls


@dataclass(frozen=True)
class Task:
    """What is to be recorded: study, devices, builds and library of CPU variants."""

    hardware: Host
    study: Study
    devices: list[CudaDevice]
    builds: list[BuildResult]
    cubins: Path
    library: Path
    at_once: bool  # measure the GPUs concurrently

    def gpu_opening(self, device: CudaDevice) -> Opening:
        """Return how the worker of a GPU opens its session; each worker has its own core."""
        session = partial(
            self.hardware.open_gpu,
            device,
            builds=self.builds,
            cubins=self.cubins,
            partner=self._partner(device),
            primary=bool(calls(self.study)),
        )
        return self._opening(session, gpu_cells(self.study, device.label), 0.0, device.index)

    def _partner(self, device: CudaDevice) -> CudaDevice | None:
        """Return the next GPU of the same model; None without one, or if measured at once."""
        same_model = [
            other for other in self.devices if replace(other, index=device.index) == device
        ]
        after = same_model[(same_model.index(device) + 1) % len(same_model)]
        return None if self.at_once or after == device else after

    def cpu_opening(self) -> Opening:
        """Return how the worker of the CPU opens its session."""
        session = partial(self.hardware.open_cpu, self.library)
        # On a CPU, caches would contain matrices of the previous cell.
        warm_run_s = self.study.protocol.cpu_warm_run_s
        return self._opening(session, self.cpu_cells(), warm_run_s, core=0)

    def cpu_cells(self) -> list[Cell]:
        """Return the cells to measure on the CPU."""
        return cpu_cells(self.study, usable_threads())

    def _opening(
        self,
        session: Callable[[Inputs], DeviceSession],
        cells: list[Cell],
        warm_run_s: float,
        core: int,
    ) -> Opening:
        seed, warm_up_s = self.study.seed, self.study.protocol.warm_up_s
        return Opening(session, problems(cells), seed, CACHE, warm_up_s, warm_run_s, core)

    def fingerprint(self) -> dict[str, Any]:
        """Return the inputs that must be unchanged when an interrupted recording is resumed."""
        return {
            "format": FORMAT,
            "study": self.study.plain(),
            "GPUs": [asdict(device) for device in self.devices],
            "order of GPUs": "at once" if self.at_once else "in turn",
            "host": provenance.host(),
            "source files": _sources(self.study, self.devices),
            "cubins": [build.cubin_sha256 for build in self.builds],
        }


def record(
    config: Config,
    wanted: str | int,
    out: Path,
    cubins: Path | None,
    commit: str | None = None,
    hardware: Host | None = None,
    at_once: bool = False,
    overwrite: bool = False,
) -> recording.Recording:
    """Measure this host's CPU and the GPUs that `wanted` selects; write the recording to `out`.

    Several GPUs are measured one after the other, or concurrently (`at_once`). `cubins` contains
    prebuilt ``sm_XX/STEM.cubin``; None builds them. `commit` is the commit of a tree without git
    history. An interrupted recording is resumed from ``OUT.partial``. With
    `overwrite`, a finished recording may be replaced (`check_target`). Raise StudyError before
    measuring if a compiler, GPU or cubin is missing or the GPU is locked. Raise StudyError later if
    a device is lost or a disk is full; all samples so far are kept.
    """
    hardware = hardware or Host()
    devices = hardware.select(wanted)
    target = (out, config.study, devices, overwrite)
    check_target(*target)
    _check_memory(config.study, devices)
    texts = provenance.texts(*_gpu_sources(config.study, devices))
    gcc = find_gcc()
    with ExitStack() as stack:
        for device in devices:
            purpose = f"recording into {out}"
            stack.enter_context(only_run(device, hardware.lock_file(device), purpose))
        out.parent.mkdir(parents=True, exist_ok=True)
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="gemm-study-"))
        library = build_library(gcc, Path(folder))
        builds = _builds(config, devices, cubins or Path(folder), is_prebuilt=cubins is not None)
        at_once = at_once and len(devices) > 1
        task = Task(
            hardware, config.study, devices, builds, cubins or Path(folder), library, at_once
        )
        begun = {"started_utc": provenance.utc_now()} | ({"texts": texts} if texts else {})
        header = {"task": task.fingerprint(), "facts": begun}
        with open_journal(out, header) as journal:
            check_target(*target)  # another process may have finished while this one built
            if len(journal.rows[ATTEMPTS]) > 1:
                print(f"{out}: resuming", file=sys.stderr, flush=True)
            _measure(task, journal)
            if not journal.rows["builds.csv"]:
                journal.add("builds.csv", *(build.row() for build in builds))
                rows = [row for build in builds for row in build.instruction_rows()]
                journal.add("instructions.csv", *rows)
            facts = _facts(task, journal, gcc_version(gcc), commit)
            return recording.write(out, facts, journal.frames())


def _check_memory(study: Study, devices: list[CudaDevice]) -> None:
    """Raise StudyError if the matrices of a device do not fit in this host's memory."""
    for cells in (*(gpu_cells(study, device.label) for device in devices), cpu_cells(study, 1)):
        check_memory(problems(cells))


def _measure(task: Task, journal: Journal) -> None:
    study = task.study
    jobs = [partial(_measure_gpu, task, journal, device) for device in task.devices]
    if task.at_once:
        run_at_once(jobs)
    else:
        for job in jobs:
            job(lambda: None)
    if len(task.devices) > 1 and study.interference:
        openings = {device.label: task.gpu_opening(device) for device in task.devices}
        checks = journal.checks()
        passed = [cell for cell, check in checks.items() if check["status"] == "passed"]
        cells = interference_cells(study.interference, passed)
        measure_interference(openings, cells, study, journal)
    DeviceMeasurement(CPU, task.cpu_cells(), study, journal).run(task.cpu_opening(), None)


def _measure_gpu(task: Task, journal: Journal, device: CudaDevice, meet: Meet) -> None:
    """Measure a GPU; `meet` waits for the other GPUs if they are measured at the same time."""
    study = task.study

    def cold_start(cell: Cell, limit_s: float) -> Any:
        return task.hardware.cold_start(device, cell, task.cubins, study.seed, limit_s)

    measurement = DeviceMeasurement(device.label, gpu_cells(study, device.label), study, journal)
    measurement.run(task.gpu_opening(device), cold_start, meet)


def _facts(task: Task, journal: Journal, gcc: str, commit: str | None) -> dict[str, Any]:
    none = dict.fromkeys(("driver", "cuda_driver", "cublas"))
    drivers = task.hardware.drivers() if task.devices else none
    nvccs = {build.nvcc for build in task.builds}
    texts = journal.header.get("texts", {})  # texts as in the first attempt
    imports = dict(ChainMap(*journal.rows[IMPORTS][::-1]))
    return {
        "format": FORMAT,
        "simulated": False,
        **journal.header,
        **_dates(journal),
        "host": provenance.host(),
        "devices": [task.hardware.describe(device) for device in task.devices],
        "software": {
            **drivers,
            "nvcc": ", ".join(sorted(nvccs)) or None,
            "gcc": gcc,
            **provenance.blas(),
            "python": platform.python_version(),
            "packages": provenance.packages(),
        },
        "compile": provenance.compile_flags(),
        "git": version.tree(commit),
        "configuration": task.study.plain(),
        "seed": task.study.seed,
        "sources": _sources(task.study, task.devices)
        | {path: lines_sha256(lines) for path, lines in texts.items()},
        **({"imports": imports} if imports else {}),
        "attempts": len(journal.rows[ATTEMPTS]),
        "machine_start": provenance.machine_start(),
        "at_once": task.at_once,
        "phases": journal.rows[PHASES],
    }


def _dates(journal: Journal) -> dict[str, str]:
    """Return the start and the end, which include all samples even if the clock was set back."""
    rows = journal.rows["samples.csv.gz"] + journal.rows["kernels.csv.gz"]
    stamps = [provenance.utc(row["time_unix_s"]) for row in rows]
    return {
        "started_utc": min([journal.header["started_utc"], provenance.utc_now(), *stamps]),
        "finished_utc": max([provenance.utc_now(), *stamps]),
    }


def _sources(study: Study, devices: list[CudaDevice]) -> dict[str, str]:
    return provenance.sources(*_gpu_sources(study, devices), study.cpu.variants)


def _gpu_sources(
    study: Study, devices: list[CudaDevice]
) -> tuple[Sequence[Build], Sequence[Variant]]:
    return (builds_of(study), calls(study)) if devices else ((), ())


def _builds(
    config: Config, devices: list[CudaDevice], cubins: Path, is_prebuilt: bool
) -> list[BuildResult]:
    """Compile the study's kernels into `cubins` for each architecture, or read prebuilt ones."""
    wanted, results = builds_of(config.study), []
    for name in sorted({architecture(device.compute_capability) for device in devices}):
        if is_prebuilt:
            results += [read_result(cubins / name / f"{build.stem}.cubin") for build in wanted]
        else:
            print(f"building {len(wanted)} kernels for {name}", file=sys.stderr, flush=True)
            results += build_all(find_nvcc(config.toolchain.nvcc), wanted, name, cubins)
    return results
