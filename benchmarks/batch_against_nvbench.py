"""Hold the batched kernel times of this project against NVIDIA's nvbench, on the same cubins.

    python -m benchmarks.batch_against_nvbench [--out FILE]

On GPU 0, for the kernels and orders of `benchmarks.nvbench_kernels`: the mean time of launches back
to back by `measurement.gpu.GpuSession.batch`, and nvbench's batched time ("hot"; its cold time,
after a flush of L2, is quoted beside). Both are taken in turns, so that what the card does
meanwhile meets both. The exit status is 1 if a median ratio is more than 3 % off.
"""

import argparse
import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.nvbench_kernels import DTYPE, KERNELS, REMEDY, SIZES, label
from kernels.build import ROOT, architecture, build_all
from kernels.plan import Product, builds_of
from kernels.shape import Shape
from kernels.toolchain import find_nvcc, nvcc_version
from measurement.cells import cell
from measurement.discovery import CudaDevice, select
from measurement.errors import StudyError, exit_status
from measurement.files import write_atomic
from measurement.gpu import GpuSession
from measurement.matrices import Inputs
from measurement.provenance import drivers, utc_now

TOLERANCE = 0.03
_PAIRS = 5
_BATCHES = 3  # of ours in a round, of which the median counts
_BATCH_S = 0.1
_SEED = 1
_BATCH_TIME = "nv/batch/time/gpu/mean"
_COLD_TIME = "nv/cold/time/gpu/mean"

Kernel = tuple[str, int, int]  # variant, block size, order


@dataclass(frozen=True)
class Round:
    """One pair of measurements of a kernel, in seconds a launch."""

    ours_s: float
    nvbench_s: float
    nvbench_cold_s: float


@dataclass(frozen=True)
class Comparison:
    """A kernel's medians over the rounds; the ratios are ours to nvbench's, round by round."""

    variant: str
    block_size: int
    n: int
    ours_s: float
    nvbench_s: float
    nvbench_cold_s: float
    ratio: float
    ratio_min: float
    ratio_max: float
    within: bool


def compare(kernel: Kernel, rounds: list[Round]) -> Comparison:
    """Return what the rounds of a kernel say."""
    ratios = [taken.ours_s / taken.nvbench_s for taken in rounds]
    variant, block_size, n = kernel
    return Comparison(
        variant,
        block_size,
        n,
        median(taken.ours_s for taken in rounds),
        median(taken.nvbench_s for taken in rounds),
        median(taken.nvbench_cold_s for taken in rounds),
        median(ratios),
        min(ratios),
        max(ratios),
        abs(median(ratios) - 1) <= TOLERANCE,
    )


def read_nvbench(path: Path) -> dict[Kernel, tuple[float, float]]:
    """Return batched and cold time of every kernel, in seconds, from nvbench's JSON file.

    Raises StudyError where nvbench skipped a measurement, or does not say the time.
    """
    found = {}
    names = {label(*kernel): kernel for kernel in KERNELS}
    for benchmark in json.loads(path.read_text())["benchmarks"]:
        for state in benchmark["states"]:
            name = f"nvbench: {benchmark['name']} {state['name']}"
            if state.get("is_skipped"):
                raise StudyError(f"{name}: skipped: {state.get('skip_reason')}")
            axes = {axis["name"]: axis["value"] for axis in state["axis_values"]}
            times = {summary["tag"]: summary for summary in state["summaries"] or []}
            found[(*names[benchmark["name"]], int(axes["N"]))] = (
                _value(times, _BATCH_TIME, name),
                _value(times, _COLD_TIME, name),
            )
    return found


def _value(summaries: dict[str, Any], tag: str, name: str) -> float:
    for item in summaries.get(tag, {}).get("data", []):
        if item["name"] == "value":
            return float(item["value"])
    raise StudyError(f"{name}: its results lack {tag}; run `pip install cuda-bench==0.3.0`")


def run_nvbench(cubins: Path) -> dict[Kernel, tuple[float, float]]:
    """Measure all kernels with nvbench in a fresh process; `cubins` is the folder of the files."""
    with tempfile.TemporaryDirectory(prefix="matmul-study-") as folder:
        path = Path(folder) / "nvbench.json"
        command = [sys.executable, "-m", "benchmarks.nvbench_kernels"]
        options = ["--cubins", str(cubins), "--json", str(path), "--seed", str(_SEED)]
        done = subprocess.run(
            command + options, cwd=ROOT, capture_output=True, text=True, check=False
        )
        if done.returncode or not path.exists():
            lines = (done.stdout + done.stderr).strip().splitlines() or ["no message"]
            last = lines[-1].removeprefix("error: ")
            raise StudyError(f"nvbench: ended with status {done.returncode}: {last}")
        return read_nvbench(path)


def run_ours(session: GpuSession) -> dict[Kernel, float]:
    """Return the batched time of every kernel, in seconds a launch."""
    return {
        (name, block_size, n): median(
            session.back_to_back(
                cell("gpu0", name, DTYPE, Shape.square(n), block_size, "pinned"), _BATCH_S
            ).kernel_batch_s
            for _ in range(_BATCHES)
        )
        for name, block_size in KERNELS
        for n in SIZES
    }


def measure(device: CudaDevice, folder: Path) -> list[Comparison]:
    """Build the kernels into `folder`, and measure them in turns."""
    shapes = [Shape.square(n) for n in SIZES]
    wanted = builds_of(Product(name, DTYPE, shapes[0], block) for name, block in KERNELS)
    name = architecture(device.compute_capability)
    builds = build_all(find_nvcc(), wanted, name, folder, len(os.sched_getaffinity(0)))
    rounds: dict[Kernel, list[Round]] = {}
    inputs = Inputs([(DTYPE, shape) for shape in shapes], _SEED)
    with GpuSession(device, inputs, builds, folder) as session:
        for number in range(1, _PAIRS + 1):
            print(f"round {number} of {_PAIRS}", file=sys.stderr, flush=True)
            ours = run_ours(session)
            theirs = run_nvbench(folder / name)
            for kernel, ours_s in ours.items():
                rounds.setdefault(kernel, []).append(Round(ours_s, *theirs[kernel]))
    return [compare(kernel, taken) for kernel, taken in rounds.items()]


def table(comparisons: list[Comparison]) -> str:
    """Return the outcome as lines of text, times in microseconds."""
    lines = [
        f"{'kernel':<14} {'B':>3} {'N':>5} {'ours µs':>9} {'nvbench µs':>11} {'ratio':>7} "
        f"{'min':>7} {'max':>7}  within {TOLERANCE:.0%}  {'(cold µs)':>10}"
    ]
    lines += [
        f"{c.variant:<14} {c.block_size:>3} {c.n:>5} {c.ours_s * 1e6:>9.2f} "
        f"{c.nvbench_s * 1e6:>11.2f} {c.ratio:>7.4f} {c.ratio_min:>7.4f} {c.ratio_max:>7.4f}  "
        f"{'yes' if c.within else 'NO':<9}  {c.nvbench_cold_s * 1e6:>10.2f}"
        for c in comparisons
    ]
    return "\n".join(lines)


def _facts(device: CudaDevice, comparisons: list[Comparison]) -> dict[str, Any]:
    return {
        "date_utc": utc_now(),
        "gpu": device.name,
        **drivers(),
        "nvcc": nvcc_version(find_nvcc()),
        "cuda_bench": importlib.metadata.version("cuda-bench"),
        "rounds": _PAIRS,
        "tolerance": TOLERANCE,
        "kernels": [asdict(comparison) for comparison in comparisons],
    }


def main() -> int:
    """Run the comparison; raises StudyError."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.batch_against_nvbench",
        description="Compare batched kernel times with NVIDIA's nvbench on GPU 0.",
    )
    parser.add_argument("--out", type=Path, help="write the outcome to this file too, as JSON")
    arguments = parser.parse_args()
    # The package `cuda` is shared by several distributions: it may be there without this part.
    if not (importlib.util.find_spec("cuda") and importlib.util.find_spec("cuda.bench")):
        raise StudyError(REMEDY)
    device = select(0)[0]
    with tempfile.TemporaryDirectory(prefix="matmul-study-") as folder:
        comparisons = measure(device, Path(folder))
    print(table(comparisons))
    if arguments.out:
        write_atomic(arguments.out, json.dumps(_facts(device, comparisons), indent=2) + "\n")
    return int(not all(comparison.within for comparison in comparisons))


if __name__ == "__main__":
    sys.exit(exit_status(main))
