"""What it costs to measure the 44 cells of `benchmarks.tuner_kernels`, with transfers and checks.

    python -m benchmarks.tuner_cells [--tuner nvrtc]

The command builds the cubins, then runs ``gemm-study record`` with 20 samples per cell on GPU 0 and
otherwise the protocol of config.yaml. No config contains exactly these 44 cells, so there are two
recordings, and each cost is the sum of both. Each recording starts its own processes and also
measures the GPU's ceilings and one small CPU cell, but no cold starts. With `--tuner`, kernel_tuner
then times the same 44 kernels (kernel time only, 30 launches, including compilation). The exit
status is 1 if measuring on the GPU takes more than 12 s.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from base.errors import StudyError, exit_status
from base.paths import ROOT
from benchmarks.tuner_kernels import BACKENDS, CELLS, SIZES
from kernels.cubins.compile import architecture, build_all
from kernels.cubins.toolchain import find_nvcc
from measurement.devices.discovery import CudaDevice, select
from measurement.recording import recording
from study.cells import gpu_cells
from study.config import Config, load, validate
from study.plan import builds

BOUND_S = 12.0
_SAMPLES = 20
_GPU = "gpu0"
# Variants and block sizes of the two recordings: naive has fewer block sizes.
_PARTS = [(["naive"], [16, 32]), (["block", "block_unroll4"], [2, 4, 8, 16, 32])]


@dataclass
class Cost:
    """The cost of measuring so far: seconds by part, and the samples of each cell."""

    build_s: float = 0.0
    record_s: float = 0.0
    wall_s: dict[str, float] = field(default_factory=dict)  # wall time on the GPU, by phase
    busy_s: dict[str, float] = field(default_factory=dict)  # in kernels and copies, by phase
    samples: list[int] = field(default_factory=list)  # number of samples of each cell

    @property
    def gpu_s(self) -> float:
        """The seconds of all phases on the GPU."""
        return sum(self.wall_s.values())

    def idle_share(self, phases: Iterable[str]) -> float:
        """Return the share of the time of these phases in which no kernel or copy ran."""
        phases = list(phases)
        busy_s = sum(self.busy_s[phase] for phase in phases)
        return 1 - busy_s / sum(self.wall_s[phase] for phase in phases)

    def add(self, made: recording.Recording) -> None:
        """Add a recording's phases and samples; raise StudyError if a cell did not pass."""
        checks = made.checks[made.checks["device"] == _GPU]
        wrong = checks[checks["status"] != "passed"]
        if len(wrong):
            first = wrong.iloc[0]
            raise StudyError(
                f"{first['variant']} N={first['n']} B={first['block_size']}: {first['status']}: "
                f"{first['reason']}"
            )
        for phase in made.provenance["phases"]:
            if phase["device"] == _GPU:
                name = phase["phase"]
                self.wall_s[name] = self.wall_s.get(name, 0.0) + phase["wall_s"]
                self.busy_s[name] = self.busy_s.get(name, 0.0) + phase["busy_s"]
        samples = made.samples[made.samples["device"] == _GPU]
        self.samples += samples.groupby(["variant", "n", "block_size"]).size().tolist()


def configurations(config: Config) -> list[Config]:
    """Return the recordings' configs, which have each of the 44 cells once; raise StudyError."""
    whole = config.plain()
    study = whole["study"]
    protocol = {"samples": _SAMPLES, "cold_starts": 0}
    protocol["gpu_cell_budget_s"] = 60  # large enough for all samples of every cell
    found = []
    for variants, block_sizes in _PARTS:
        part = {
            "sizes": SIZES,
            "holdout_sizes": [],
            "variants": variants,
            "block_sizes": block_sizes,
            "series": [],
            "host_memory": ["pinned"],
            "cpu": {"variants": ["naive"], "sizes": [16], "block_sizes": [8], "threads": [1]},
            "protocol": study["protocol"] | protocol,
        }
        gpus = [{"id": "local", "device": 0}]
        own = {"study": study | part, "gpus": gpus, "report": {}}
        found.append(validate(whole | own, "config.yaml"))
    planned = [
        (cell.variant, cell.shape.n, cell.block_size)
        for part in found
        for cell in gpu_cells(part.study, _GPU)
    ]
    wanted = [
        (name, n, b) for name, block_sizes in CELLS.items() for b in block_sizes for n in SIZES
    ]
    if sorted(planned) != sorted(wanted):
        raise StudyError("config.yaml: block_size_limits excludes cells; raise the limits")
    return found


def build(parts: list[Config], device: CudaDevice, folder: Path) -> float:
    """Build the cubins of all recordings in `folder`; return how many seconds it took."""
    wanted = list(dict.fromkeys(one for part in parts for one in builds(part.study)))
    begin = time.perf_counter()
    name = architecture(device.compute_capability)
    build_all(find_nvcc(), wanted, name, folder, len(os.sched_getaffinity(0)))
    return time.perf_counter() - begin


def record(config: Config, cubins: Path, out: Path) -> tuple[recording.Recording, float]:
    """Run ``gemm-study record``; return the recording, and how many seconds the process took."""
    path = out.with_suffix(".yaml")
    path.write_text(yaml.safe_dump(config.plain()))
    command = [sys.executable, "-m", "workflow", "record", "--config", str(path)]
    command += ["--device", "0", "--cubins", str(cubins), "--out", str(out)]
    begin = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, check=False)
    taken_s = time.perf_counter() - begin
    if done.returncode:
        raise StudyError(f"measurement record: exit status {done.returncode}; see above")
    return recording.read(out), taken_s


def measure(device: CudaDevice) -> Cost:
    """Build and record the 44 cells; return the cost."""
    parts = configurations(load(ROOT / "config.yaml"))
    cost = Cost()
    with tempfile.TemporaryDirectory(prefix="gemm-study-") as name:
        folder = Path(name)
        cost.build_s = build(parts, device, folder / "cubins")
        for number, part in enumerate(parts):
            made, taken_s = record(part, folder / "cubins", folder / f"part{number}")
            cost.record_s += taken_s
            cost.add(made)
    return cost


def tune(backend: str) -> tuple[int, float]:
    """Time the cells with kernel_tuner; return how many there were and the seconds it took."""
    command = [sys.executable, "-m", "benchmarks.tuner_kernels", "--backend", backend]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        output = (done.stdout + done.stderr).strip().splitlines() or ["no message"]
        # The error need not be the last line, because destructors may print after it.
        last = next((line for line in output if line.startswith("error: ")), output[-1])
        raise StudyError(f"kernel_tuner with {backend}: {last.removeprefix('error: ')}")
    answer = json.loads(done.stdout.splitlines()[-1])
    return answer["cells"], answer["seconds"]


def lines(cost: Cost) -> Iterator[str]:
    """Yield the cost as lines of text."""
    phases = ", ".join(f"{name} {seconds:.2f}" for name, seconds in cost.wall_s.items())
    verdict = "within" if cost.gpu_s <= BOUND_S else "NOT within"
    idle, sampling = cost.idle_share(cost.wall_s), cost.idle_share(["sampling"])
    yield f"{'cells':<28} {len(cost.samples)}, at least {min(cost.samples)} samples each"
    yield f"{'building':<28} {cost.build_s:.2f} s"
    yield f"{'recording, whole processes':<28} {cost.record_s:.2f} s"
    yield f"{'  on the GPU':<28} {cost.gpu_s:.2f} s, {verdict} {BOUND_S:g} s ({phases})"
    yield f"{'    outside kernels, copies':<28} {idle:.0%}; while sampling {sampling:.0%}"


def tuner_line(backend: str, cells: int, seconds: float, cost: Cost) -> str:
    """Return a line with kernel_tuner's time, and its ratio to the cost of this project."""
    name = f"kernel_tuner, {backend}"
    return (
        f"{name:<28} {seconds:.2f} s for {cells} cells, including compilation: "
        f"{seconds / cost.gpu_s:.2f}× the time on the GPU here, "
        f"{seconds / (cost.build_s + cost.record_s):.2f}× building and recording"
    )


def main() -> int:
    """Measure and print; raise StudyError."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tuner_cells")
    parser.add_argument("--tuner", choices=BACKENDS, help="backend of kernel_tuner")
    backend = parser.parse_args().tuner
    cost = measure(select(0)[0])
    print("\n".join(lines(cost)), flush=True)
    if backend:
        print(tuner_line(backend, *tune(backend), cost), flush=True)
    return int(cost.gpu_s > BOUND_S)


if __name__ == "__main__":
    sys.exit(exit_status(main))
