"""Compare this project's kernel times with NVIDIA's nvbench, on the same cubins.

    python -m benchmarks.compare_with_nvbench [--out FILE]

The kernels of `benchmarks.nvbench_kernels` run on GPU 0. Kernel-only times
(`GpuSession.kernel_time`) with flushed caches are compared with nvbench's isolated time ("cold"),
which also flushes the L2, and includes two events. Times with warm caches are compared with
nvbench's time per further launch: (cold time of L launches − cold time of one) / (L − 1). The third
method uses the GPU's clock: one-thread kernels before and after read %globaltimer, and the time
without a kernel between them is subtracted. All methods alternate in one process, and each round
uses a new process. The ratios are ratios of medians over all rounds. The exit status is 1 if a
ratio to nvbench, warm or flushed, differs from 1 by more than 2 %.
"""

import argparse
import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from analysis.stats.estimates import bootstrap_paired_ratios, percentile_interval, seeded
from base.errors import StudyError, exit_status
from base.files import write_atomic
from base.paths import ROOT
from benchmarks.nvbench_kernels import (
    KERNELS,
    OURS,
    REMEDY,
    THEIRS,
    TRAIN,
    Kernel,
    MethodTimes,
    label,
    train,
    wanted,
)
from kernels.cubins.compile import architecture, build_all
from kernels.cubins.toolchain import find_nvcc, nvcc_version
from measurement.devices.discovery import CudaDevice, select
from measurement.recorder.provenance import drivers, utc_now

TOLERANCE = 0.02
_ROUNDS = 15
_COLD_TIME = "nv/cold/time/gpu/median"


@dataclass(frozen=True)
class Times:
    """The times of a kernel by all methods in one round, in seconds per launch."""

    warm_s: float
    flushed_s: float
    stamped_s: float
    nvbench_warm_s: float
    nvbench_cold_s: float


_METHODS = [field.name for field in fields(Times)]


@dataclass(frozen=True)
class Comparison:
    """A kernel's medians over rounds, and ratios to nvbench's; the first ratio has an interval."""

    variant: str
    block_size: int | None
    n: int
    times: Times
    ratio: float
    ratio_low: float
    ratio_high: float
    within: bool
    flushed_ratio: float
    flushed_within: bool
    stamped_ratio: float


def compare(kernel: Kernel, rounds: list[Times]) -> Comparison:
    """Return the comparison of a kernel over its rounds."""
    taken = {name: np.array([asdict(times)[name] for times in rounds]) for name in _METHODS}
    medians = {name: float(np.median(times)) for name, times in taken.items()}
    warm_s, flushed_s = medians["warm_s"], medians["flushed_s"]
    draws = bootstrap_paired_ratios(taken["warm_s"], taken["nvbench_warm_s"], seeded(*kernel))
    low, high = map(float, percentile_interval(draws))
    ratio, flushed = warm_s / medians["nvbench_warm_s"], flushed_s / medians["nvbench_cold_s"]
    return Comparison(
        *kernel,
        Times(**medians),
        ratio,
        low,
        high,
        abs(ratio - 1) <= TOLERANCE,
        flushed,
        abs(flushed - 1) <= TOLERANCE,
        warm_s / medians["stamped_s"],
    )


def read_nvbench(path: Path) -> dict[Kernel, tuple[float, float]]:
    """Return warm and cold times of all kernels, in seconds per launch, from nvbench's JSON file.

    Raise StudyError if nvbench skipped a measurement or a time is missing.
    """
    cold_s: dict[str, dict[int, float]] = {}
    for benchmark in json.loads(path.read_text())["benchmarks"]:
        for state in benchmark["states"]:
            name = f"nvbench: {benchmark['name']}"
            if state.get("is_skipped"):
                raise StudyError(f"{name}: skipped: {state.get('skip_reason')}; run it again")
            axes = {axis["name"]: axis["value"] for axis in state["axis_values"]}
            times = {summary["tag"]: summary for summary in state["summaries"] or []}
            launches = cold_s.setdefault(benchmark["name"], {})
            launches[int(axes[TRAIN])] = _value(times, _COLD_TIME, name)
    found = {}
    for kernel in KERNELS:
        launches, many = cold_s[label(*kernel)], train(kernel[2])
        found[kernel] = (launches[many] - launches[1]) / (many - 1), launches[1]
    return found


def _value(summaries: dict[str, Any], tag: str, name: str) -> float:
    for item in summaries.get(tag, {}).get("data", []):
        if item["name"] == "value":
            return float(item["value"])
    raise StudyError(f"{name}: results without {tag}; run `pip install cuda-bench==0.3.0`")


def read_ours(path: Path) -> dict[Kernel, MethodTimes]:
    """Return this project's times of all kernels from a file, by method: medians over windows."""
    windows = json.loads(path.read_text())
    return {kernel: tuple(np.median(windows[label(*kernel)], axis=0)) for kernel in KERNELS}


def run_round(cubins: Path) -> dict[Kernel, Times]:
    """Measure all kernels in a new process; `cubins` is the folder of ``sm_XX/STEM.cubin``."""
    with tempfile.TemporaryDirectory(prefix="gemm-study-") as name:
        folder = Path(name)
        command = [sys.executable, "-m", "benchmarks.nvbench_kernels"]
        options = ["--cubins", str(cubins), "--out", str(folder)]
        done = subprocess.run(
            command + options, cwd=ROOT, capture_output=True, text=True, check=False
        )
        if done.returncode or not (folder / OURS).exists():
            lines = (done.stdout + done.stderr).strip().splitlines() or ["no message"]
            last = lines[-1].removeprefix("error: ")
            raise StudyError(f"nvbench: exit status {done.returncode}: {last}")
        theirs = read_nvbench(folder / THEIRS)
        return {
            kernel: Times(*ours, *theirs[kernel])
            for kernel, ours in read_ours(folder / OURS).items()
        }


def measure(device: CudaDevice, folder: Path) -> list[Comparison]:
    """Build the kernels in `folder` and measure them in rounds."""
    cores = len(os.sched_getaffinity(0))
    build_all(find_nvcc(), wanted(), architecture(device.compute_capability), folder, cores)
    rounds: dict[Kernel, list[Times]] = {kernel: [] for kernel in KERNELS}
    for number in range(1, _ROUNDS + 1):
        print(f"round {number} of {_ROUNDS}", file=sys.stderr, flush=True)
        for kernel, times in run_round(folder).items():
            rounds[kernel].append(times)
    return [compare(kernel, taken) for kernel, taken in rounds.items()]


def table(comparisons: list[Comparison]) -> str:
    """Return the result as text, in microseconds."""
    lines = [
        f"{'kernel':<28} {'B':>4} {'N':>5} {'warm':>9} {'nv warm':>9} {'ratio':>7} {'low':>7} "
        f"{'high':>7} {'within':>6} {'flushed':>9} {'nv cold':>9} {'ratio':>7} {'within':>6} "
        f"{'by clock':>9} {'ratio':>7}"
    ]
    lines += [
        f"{c.variant:<28} {c.block_size or '':>4} {c.n:>5} {c.times.warm_s * 1e6:>9.2f} "
        f"{c.times.nvbench_warm_s * 1e6:>9.2f} {c.ratio:>7.4f} {c.ratio_low:>7.4f} "
        f"{c.ratio_high:>7.4f} {_yes_no(c.within):>6} "
        f"{c.times.flushed_s * 1e6:>9.2f} {c.times.nvbench_cold_s * 1e6:>9.2f} "
        f"{c.flushed_ratio:>7.4f} {_yes_no(c.flushed_within):>6} "
        f"{c.times.stamped_s * 1e6:>9.2f} {c.stamped_ratio:>7.4f}"
        for c in comparisons
    ]
    return "\n".join(lines)


def _yes_no(within: bool) -> str:
    return "yes" if within else "NO"


def _facts(device: CudaDevice, comparisons: list[Comparison]) -> dict[str, Any]:
    return {
        "date_utc": utc_now(),
        "gpu": device.name,
        **drivers(),
        "nvcc": nvcc_version(find_nvcc()),
        "cuda_bench": importlib.metadata.version("cuda-bench"),
        "rounds": _ROUNDS,
        "tolerance": TOLERANCE,
        "kernels": [asdict(comparison) for comparison in comparisons],
    }


def main() -> int:
    """Run the comparison; raise StudyError."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.compare_with_nvbench",
        description="Compare kernel times with NVIDIA's nvbench and the GPU's clock on GPU 0.",
    )
    parser.add_argument("--out", type=Path, help="also write the result to this JSON file")
    arguments = parser.parse_args()
    # Several distributions share the package `cuda`, so cuda.bench may be missing.
    if not (importlib.util.find_spec("cuda") and importlib.util.find_spec("cuda.bench")):
        raise StudyError(REMEDY)
    device = select(0)[0]
    with tempfile.TemporaryDirectory(prefix="gemm-study-") as folder:
        comparisons = measure(device, Path(folder))
    print(table(comparisons))
    if arguments.out:
        write_atomic(arguments.out, json.dumps(_facts(device, comparisons), indent=2) + "\n")
    return int(not all(each.within and each.flushed_within for each in comparisons))


if __name__ == "__main__":
    sys.exit(exit_status(main))
