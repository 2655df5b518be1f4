"""Making a recording of this host: its GPUs, in turn or at once, its CPU, and where it was."""

import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from cpu_reference.cores import usable_threads
from cpu_reference.library import build_library, find_gcc, gcc_version
from kernels.catalog.user_supplied import adopted
from kernels.catalog.variant import Variant
from kernels.cubins.build import Build
from kernels.cubins.compile import BuildResult, architecture, build_all, read_result
from kernels.cubins.toolchain import find_nvcc
from kernels.products.matrices import check_memory
from kernels.products.references import CACHE
from measurement.devices.discovery import CudaDevice
from measurement.devices.locks import only_run
from measurement.recorder import provenance
from measurement.recorder.at_once import Meet, run_at_once
from measurement.recorder.hardware import Hardware, Host, OpenCpu, OpenGpu
from measurement.recording import recording
from measurement.recording.journal import Journal, open_journal
from measurement.recording.provenance_schema import FORMAT, lines_sha256
from measurement.sampling.interference import interference_cells, measure_interference
from measurement.sampling.measure import Measurement
from measurement.sampling.worker import Opening
from study.cells import CPU, Cell, cpu_cells, gpu_cells, problems
from study.config import Config, Study
from study.plan import builds as builds_of
from study.plan import calls


@dataclass(frozen=True)
class Task:
    """What is to be measured, with everything that it takes at hand."""

    hardware: Hardware
    study: Study
    devices: list[CudaDevice]
    builds: list[BuildResult]
    cubins: Path
    library: Path
    at_once: bool  # several GPUs

    def gpu_opening(self, device: CudaDevice) -> Opening:
        """Return how a worker begins with a GPU; each has a core of its own."""
        session = OpenGpu(self.hardware, device, self.builds, self.cubins)
        return self._opening(session, gpu_cells(self.study, _label(device)), 0.0, device.index)

    def cpu_opening(self) -> Opening:
        """Return how a worker begins with the CPU."""
        session = OpenCpu(self.hardware, self.library)
        # What ran before has left its matrices in the caches of this device alone.
        warm_pass_s = self.study.protocol.cpu_warm_run_s
        return self._opening(session, self.cpu_cells(), warm_pass_s, core=0)

    def cpu_cells(self) -> list[Cell]:
        """Return the cells of the CPU."""
        return cpu_cells(self.study, usable_threads())

    def _opening(
        self, session: OpenGpu | OpenCpu, cells: list[Cell], warm_pass_s: float, core: int
    ) -> Opening:
        seed, warm_up_s = self.study.seed, self.study.protocol.warm_up_s
        own = (session, problems(cells), seed, CACHE, warm_up_s, warm_pass_s, core)
        return Opening(*own, adopted())

    def fingerprint(self) -> dict[str, Any]:
        """Return what must be the same for an interrupted recording to be continued."""
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
    hardware: Hardware | None = None,
    at_once: bool = False,
) -> recording.Recording:
    """Measure this host's CPU and the GPUs that `wanted` names; write the recording to `out`.

    Several GPUs are measured one after the other, or `at_once`. `cubins` holds cubins built
    beforehand, ``sm_XX/STEM.cubin``; None builds what is needed. `commit` is that of a tree that
    was copied here without its history. What an earlier attempt left in ``OUT.partial`` is
    continued. Raises StudyError before anything is measured where a compiler, a GPU or a cubin is
    missing or another run has the GPU, and later where a device is lost or a disk is full: what was
    measured is kept then.
    """
    hardware = hardware or Host()
    recording.check_target(out)
    devices = hardware.select(wanted)
    _check_memory(config.study, devices)
    texts = provenance.texts(*_gpu_sources(config.study, devices))
    gcc = find_gcc()
    with ExitStack() as stack:
        for device in devices:
            purpose = f"recording into {out}"
            stack.enter_context(only_run(device, hardware.lock_file(device), purpose))
        out.parent.mkdir(parents=True, exist_ok=True)
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="matmul-study-"))
        library = build_library(gcc, Path(folder))
        if cubins is None:
            cubins = Path(folder)
            _build(config, devices, cubins)
        builds = _read_builds(config.study, devices, cubins)
        at_once = at_once and len(devices) > 1
        task = Task(hardware, config.study, devices, builds, cubins, library, at_once)
        begun = {"started_utc": provenance.utc_now()} | ({"texts": texts} if texts else {})
        header = {"task": task.fingerprint(), "facts": begun}
        with open_journal(out, header) as journal:
            if journal.attempts > 1:
                print(f"{out}: going on where it was interrupted", file=sys.stderr, flush=True)
            _measure(task, journal)
            if not journal.rows["builds.csv"]:
                journal.add("builds.csv", *(build.row() for build in builds))
                rows = [row for build in builds for row in build.instruction_rows()]
                journal.add("instructions.csv", *rows)
            facts = _facts(task, journal, gcc_version(gcc), commit)
            return recording.write(out, facts, journal.frames())


def _check_memory(study: Study, devices: list[CudaDevice]) -> None:
    """Raise StudyError if the matrices of a device do not fit into this host's memory."""
    for cells in (*(gpu_cells(study, _label(device)) for device in devices), cpu_cells(study, 1)):
        check_memory(problems(cells))


def _measure(task: Task, journal: Journal) -> None:
    """Measure the GPUs, how they disturb each other if there are several, and the CPU."""
    study = task.study
    jobs = [partial(_measure_gpu, task, journal, device) for device in task.devices]
    if task.at_once:
        run_at_once(jobs)
    else:
        for job in jobs:
            job(lambda: None)
    if len(task.devices) > 1 and study.interference:
        openings = {_label(device): task.gpu_opening(device) for device in task.devices}
        checks = journal.checks()
        passed = [cell for cell, check in checks.items() if check["status"] == "passed"]
        cells = interference_cells(study.interference, passed)
        measure_interference(openings, cells, study, journal)
    Measurement(CPU, task.cpu_cells(), study, journal).run(task.cpu_opening(), None)


def _measure_gpu(task: Task, journal: Journal, device: CudaDevice, meet: Meet) -> None:
    """Measure a GPU; `meet` is called where those that are measured at once wait for each other."""
    study = task.study

    def cold_start(cell: Cell, limit_s: float) -> Any:
        return task.hardware.cold_start(device, cell, task.cubins, study.seed, limit_s)

    measurement = Measurement(_label(device), gpu_cells(study, _label(device)), study, journal)
    measurement.run(task.gpu_opening(device), cold_start, meet)


def _facts(task: Task, journal: Journal, gcc: str, commit: str | None) -> dict[str, Any]:
    """Return the recording's provenance."""
    none = dict.fromkeys(("driver", "cuda_driver", "cublas"))
    drivers = task.hardware.drivers() if task.devices else none
    nvccs = {build.nvcc for build in task.builds}
    texts = journal.header.get("texts", {})  # as they were when it began
    return {
        "format": FORMAT,
        "simulated": False,
        **journal.header,
        "finished_utc": provenance.utc_now(),
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
        "git": provenance.git(commit),
        "configuration": task.study.plain(),
        "seed": task.study.seed,
        "sources": _sources(task.study, task.devices)
        | {path: lines_sha256(lines) for path, lines in texts.items()},
        "attempts": journal.attempts,
        "at_once": task.at_once,
        "phases": journal.phases,
    }


def _label(device: CudaDevice) -> str:
    return f"gpu{device.index}"


def _sources(study: Study, devices: list[CudaDevice]) -> dict[str, str]:
    return provenance.sources(*_gpu_sources(study, devices), study.cpu.variants)


def _gpu_sources(
    study: Study, devices: list[CudaDevice]
) -> tuple[Sequence[Build], Sequence[Variant]]:
    return (builds_of(study), calls(study)) if devices else ((), ())


def _build(config: Config, devices: list[CudaDevice], cubins: Path) -> None:
    """Compile what the study needs for each kind of GPU."""
    for name in _architectures(devices):
        wanted = builds_of(config.study)
        print(f"building {len(wanted)} kernels for {name}", file=sys.stderr, flush=True)
        nvcc = find_nvcc(config.toolchain.nvcc)
        build_all(nvcc, wanted, name, cubins, workers=len(os.sched_getaffinity(0)))


def _read_builds(study: Study, devices: list[CudaDevice], cubins: Path) -> list[BuildResult]:
    return [
        read_result(cubins / name / f"{build.stem}.cubin")
        for name in _architectures(devices)
        for build in builds_of(study)
    ]


def _architectures(devices: list[CudaDevice]) -> list[str]:
    return sorted({architecture(device.compute_capability) for device in devices})
