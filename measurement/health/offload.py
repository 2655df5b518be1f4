"""The break-even size of float32 products on this machine's GPU, copies included.

As in the report, the times are end-to-end times of this study's kernels and of all implementations
on the CPU: medians over the sessions of the nearest recorded machine. They are scaled by the
ceilings of this machine: GPU times by the ratio of the modelled times of launch, copies and fastest
kernel on both machines, CPU times by the ratio of the peaks. Each implementation is interpolated
linearly in the logarithms.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernels.catalog.entries import LIBRARIES, VARIANTS
from measurement.health.machine import CPU, Gpu, Machine
from measurement.recording.files import difference
from measurement.recording.recording import read

_ELEMENT_BYTES = 4
_STEPS = 400  # of the size between the smallest and the largest one recorded
_SQUARE = "dtype == 'float32' and batch == 1 and m == n and n == k"
_FLOP = "fp32_flop_per_s"
_KERNELS = {name for name, entry in VARIANTS.items() if entry.gpus == 1} - LIBRARIES
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Threshold:
    """A break-even size; `n` is None if no size from `least_n` to `largest_n` is faster."""

    device: str
    host_memory: str
    n: int | None
    least_n: int
    largest_n: int
    recordings: tuple[str, ...]


def thresholds(machine: Machine, recorded: Sequence[Machine], folder: Path) -> list[Threshold]:
    """Return the break-even sizes of each GPU; `folder` contains the recordings of `recorded`."""
    sizes = []
    for gpu in machine.gpus:
        near = nearest(machine, gpu, recorded)
        if near:
            labels = tuple(one.label for one in recorded if not difference(near.facts, one.facts))
            samples = _samples(folder, labels)
            memories = [
                memory
                for memory in ("pageable", "pinned")
                if _has(gpu, memory) and _has(near.gpus[0], memory)
            ]
            every = (_threshold(machine, gpu, near, samples, one, labels) for one in memories)
            sizes += [threshold for threshold in every if threshold]
    return sizes


@lru_cache(maxsize=1)  # GPUs of one host have the same nearest machine
def _samples(folder: Path, labels: tuple[str, ...]) -> pd.DataFrame:
    """Return the samples of square float32 products of several sessions."""
    return pd.concat(read(folder / label).samples for label in labels).query(_SQUARE)


def nearest(machine: Machine, gpu: Gpu, recorded: Sequence[Machine]) -> Machine | None:
    """Return the last recorded machine with the same GPU and the nearest number of threads."""

    def distance(other: Machine) -> tuple[bool, float]:
        threads = other.host["usable_threads"] / machine.host["usable_threads"]
        return other.gpus[0].facts["name"] != gpu.facts["name"], abs(np.log(threads))

    with_gpu = [one for one in recorded if one.gpus and _FLOP in one.gpus[0].ceilings]
    with_gpu.sort(key=lambda one: one.facts["started_utc"], reverse=True)
    return min(with_gpu, key=distance, default=None) if _FLOP in gpu.ceilings else None


def _has(gpu: Gpu, memory: str) -> bool:
    return all(f"{way}_bytes_per_s {memory}" in gpu.copies for way in ("h2d", "d2h"))


def _threshold(
    machine: Machine,
    gpu: Gpu,
    near: Machine,
    samples: pd.DataFrame,
    memory: str,
    labels: tuple[str, ...],
) -> Threshold | None:
    other, on_cpu = near.gpus[0], samples["device"] == CPU
    is_kernel = samples["variant"].isin(_KERNELS) & (samples["device"] == other.facts["device"])
    runs = _curves(samples[is_kernel & (samples["host_memory"] == memory)], "total_s")
    cpu = []
    is_one = samples["threads"] == 1
    for kind, rows in (("one", samples[on_cpu & is_one]), ("all", samples[on_cpu & ~is_one])):
        key = f"{_FLOP} {kind}"
        if key in machine.cpu and key in near.cpu:
            cpu += [near.cpu[key] / machine.cpu[key] * times for times in _curves(rows, "total_s")]
    if not (runs and cpu):
        return None
    least = max(min(int(each.index[0]) for each in curves) for curves in (runs, cpu))
    largest = min(max(int(each.index[-1]) for each in curves) for curves in (runs, cpu))
    sizes = np.unique(np.geomspace(least, largest, _STEPS).round())
    kernel_s = _least(_curves(samples[is_kernel], "in_run_kernel_s"), sizes)
    here, there = (_modelled_s(one, memory, sizes, kernel_s, other) for one in (gpu, other))
    slower = np.flatnonzero(_least(runs, sizes) * here / there >= _least(cpu, sizes))
    first = slower[-1] + 1 if len(slower) else 0
    n = int(sizes[first]) if first < len(sizes) else None
    return Threshold(gpu.facts["device"], memory, n, least, largest, labels)


def _curves(rows: pd.DataFrame, time: str) -> list[pd.Series]:
    """Return the median times by size of each implementation with several sizes."""
    keys = ["variant", "block_size", "threads"]
    medians = rows[rows[time].notna()].groupby([*keys, "n"], dropna=False)[time].median()
    curves = [curve.droplevel(keys) for _, curve in medians.groupby(level=keys, dropna=False)]
    return [times for times in curves if len(times) > 1]


def _least(curves: Sequence[pd.Series], sizes: FloatArray) -> FloatArray:
    """Return the least time of curves at each size, infinite outside their own sizes."""
    least = np.full(len(sizes), np.inf)
    for times in curves:
        curve = np.log(times.index.to_numpy(float)), np.log(times.to_numpy(float))
        times_s = np.interp(np.log(sizes), *curve, left=np.inf, right=np.inf)
        least = np.minimum(least, np.exp(times_s))
    return least


def _modelled_s(
    gpu: Gpu, memory: str, sizes: FloatArray, kernel_s: FloatArray, recorded: Gpu
) -> FloatArray:
    """Return the time of launch, copies and kernel; `kernel_s` was measured on `recorded`."""
    square = _ELEMENT_BYTES * sizes**2
    copies_s = 2 * _copy_s(gpu, "h2d", memory, square) + _copy_s(gpu, "d2h", memory, square)
    kernel_s = kernel_s * (recorded.ceilings[_FLOP] / gpu.ceilings[_FLOP])
    return np.asarray(gpu.ceilings.get("empty_total_s", 0.0) + copies_s + kernel_s)


def _copy_s(gpu: Gpu, way: str, memory: str, size_bytes: FloatArray) -> FloatArray:
    """Return the time of a copy; its throughput is constant outside the measured sizes."""
    copies = gpu.copies[f"{way}_bytes_per_s {memory}"]
    at = np.log(sorted(copies))
    rates = np.interp(np.log(size_bytes), at, [np.log(copies[size]) for size in sorted(copies)])
    return np.asarray(size_bytes / np.exp(rates))
