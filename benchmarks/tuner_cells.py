"""What it costs to measure the 44 cells of `benchmarks.cells`: transfers included, verified.

    python -m benchmarks.tuner_cells [--tuner nvrtc]

Builds the cubins, then lets ``python -m measurement record`` measure each cell in 20 samples on
GPU 0, with the protocol of config.yaml otherwise. No configuration names exactly these 44 cells, so
that they are two recordings one after the other, and every cost is the sum of both: each starts its
own processes, measures the GPU's ceilings and one small cell of the CPU. Cold starts and launches
back to back are left out. With `--tuner`, kernel_tuner times the same 44 kernels (kernel alone, 30
launches, compiling included) right after. The exit status is 1 if measuring on the GPU exceeds
12 s.
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
from benchmarks.cells import CELLS, SIZES
from benchmarks.tuner_kernels import BACKENDS
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
# The products of these variants and block sizes are the cells: naive has fewer block sizes.
_PARTS = [(["naive"], [16, 32]), (["block", "block_unroll4"], [2, 4, 8, 16, 32])]


@dataclass
class Cost:
    """What measuring has cost so far: seconds by part, and the samples of every cell."""

    build_s: float = 0.0
    record_s: float = 0.0
    wall_s: dict[str, float] = field(default_factory=dict)  # of the GPU, by phase
    busy_s: dict[str, float] = field(default_factory=dict)  # in kernels and copies, likewise
    samples: list[int] = field(default_factory=list)  # of each cell

    @property
    def gpu_s(self) -> float:
        """Seconds of the phases on the GPU."""
        return sum(self.wall_s.values())

    def idle_share(self, phases: Iterable[str]) -> float:
        """Return the share of these phases that was neither kernel nor copy."""
        phases = list(phases)
        busy_s = sum(self.busy_s[phase] for phase in phases)
        return 1 - busy_s / sum(self.wall_s[phase] for phase in phases)

    def add(self, made: recording.Recording) -> None:
        """Add a recording's phases and samples; raises StudyError where a cell did not pass."""
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
    """Return the configurations of the recordings, from the project's own; raises StudyError.

    Together they plan the 44 cells, each once.
    """
    whole = config.plain()
    study = whole["study"]
    protocol = {
        "min_samples": _SAMPLES,
        "max_samples": _SAMPLES,
        "gpu_cell_budget_s": 60,  # no cell is cut short
        "cold_starts": 0,
    }
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
        raise StudyError(
            "config.yaml: with its block_size_limits the cells are not those of "
            "benchmarks/cells.py; raise the limits"
        )
    return found


def build(parts: list[Config], device: CudaDevice, folder: Path) -> float:
    """Build every cubin of the recordings into `folder`; return the seconds that it took."""
    wanted = list(dict.fromkeys(one for part in parts for one in builds(part.study)))
    begin = time.perf_counter()
    name = architecture(device.compute_capability)
    build_all(find_nvcc(), wanted, name, folder, len(os.sched_getaffinity(0)))
    return time.perf_counter() - begin


def record(config: Config, cubins: Path, out: Path) -> tuple[recording.Recording, float]:
    """Make a recording by the project's command; return it and the seconds of the process."""
    path = out.with_suffix(".yaml")
    path.write_text(yaml.safe_dump(config.plain()))
    command = [sys.executable, "-m", "measurement", "record", "--config", str(path)]
    command += ["--device", "0", "--cubins", str(cubins), "--out", str(out)]
    begin = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, check=False)
    taken_s = time.perf_counter() - begin
    if done.returncode:
        raise StudyError(f"measurement record: ended with status {done.returncode}; see above")
    return recording.read(out), taken_s


def measure(device: CudaDevice) -> Cost:
    """Build and record the cells."""
    parts = configurations(load(ROOT / "config.yaml"))
    cost = Cost()
    with tempfile.TemporaryDirectory(prefix="matmul-study-") as name:
        folder = Path(name)
        cost.build_s = build(parts, device, folder / "cubins")
        for number, part in enumerate(parts):
            made, taken_s = record(part, folder / "cubins", folder / f"part{number}")
            cost.record_s += taken_s
            cost.add(made)
    return cost


def tune(backend: str) -> tuple[int, float]:
    """Time the cells by kernel_tuner; return how many, and the seconds of the tuning alone."""
    command = [sys.executable, "-m", "benchmarks.tuner_kernels", "--backend", backend]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines() or ["no message"]
        # Destructors have their say after the error.
        last = next((line for line in said if line.startswith("error: ")), said[-1])
        raise StudyError(f"kernel_tuner with {backend}: {last.removeprefix('error: ')}")
    answer = json.loads(done.stdout.splitlines()[-1])
    return answer["cells"], answer["seconds"]


def lines(cost: Cost) -> Iterator[str]:
    """Yield what the cells cost, in words."""
    phases = ", ".join(f"{name} {seconds:.2f}" for name, seconds in cost.wall_s.items())
    verdict = "within" if cost.gpu_s <= BOUND_S else "NOT within"
    idle, sampling = cost.idle_share(cost.wall_s), cost.idle_share(["sampling"])
    yield f"{'cells':<28} {len(cost.samples)}, at least {min(cost.samples)} samples each"
    yield f"{'building':<28} {cost.build_s:.2f} s"
    yield f"{'recording, whole processes':<28} {cost.record_s:.2f} s"
    yield f"{'  of that on the GPU':<28} {cost.gpu_s:.2f} s, {verdict} {BOUND_S:g} s ({phases})"
    yield f"{'    neither kernel nor copy':<28} {idle:.0%}; while sampling {sampling:.0%}"


def tuner_line(backend: str, cells: int, seconds: float, cost: Cost) -> str:
    """Return how kernel_tuner's time compares."""
    name = f"kernel_tuner, {backend}"
    return (
        f"{name:<28} {seconds:.2f} s for {cells} cells, compiling included: "
        f"{seconds / cost.gpu_s:.2f} times the time on the GPU here, "
        f"{seconds / (cost.build_s + cost.record_s):.2f} times building and recording"
    )


def main() -> int:
    """Measure and print; raises StudyError."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tuner_cells",
        description="Time what measuring 44 cells costs on GPU 0.",
    )
    parser.add_argument(
        "--tuner",
        action="append",
        default=[],
        choices=BACKENDS,
        help="compare with kernel_tuner and this way to compile; may be given several times",
    )
    arguments = parser.parse_args()
    cost = measure(select(0)[0])
    print("\n".join(lines(cost)), flush=True)
    failed = None
    for backend in arguments.tuner:
        try:
            print(tuner_line(backend, *tune(backend), cost), flush=True)
        except StudyError as error:  # the others are measured all the same
            failed = failed or error
    if failed:
        raise failed
    return int(cost.gpu_s > BOUND_S)


if __name__ == "__main__":
    sys.exit(exit_status(main))
