"""The size from which a product is faster on the GPU of this machine than on its CPU.

The times are the medians of the recorded machine nearest to this one, scaled to the ceilings
measured here: kernels by the FMA peak, CPU products by the CPU peak, copies by their measured
throughput. They are interpolated linearly in the logarithms, within the recorded sizes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from measurement.health.machine import CPU, Gpu, Machine
from measurement.recording.recording import Recording, read

_ELEMENT_BYTES = 4
_STEPS = 400  # of the size between the smallest and the largest one recorded
_SQUARE = "dtype == 'float32' and batch == 1 and m == n and n == k"
_FLOP = "fp32_flop_per_s"
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Threshold:
    """A break-even size; `n` is None if no size from `least_n` to `largest_n` is faster."""

    device: str
    host_memory: str
    n: int | None
    least_n: int
    largest_n: int
    recording: str


def thresholds(machine: Machine, recorded: Sequence[Machine], folder: Path) -> list[Threshold]:
    """Return the break-even sizes of each GPU; `folder` contains the recordings of `recorded`."""
    found = []
    for gpu in machine.gpus:
        near = nearest(machine, gpu, recorded)
        if near:
            recording = read(folder / near.label)
            memories = [memory for memory in ("pageable", "pinned") if _has(gpu, memory)]
            found += [_threshold(machine, gpu, near, recording, memory) for memory in memories]
    return found


def nearest(machine: Machine, gpu: Gpu, recorded: Sequence[Machine]) -> Machine | None:
    """Return the recorded machine of the same GPU, and with the nearest number of threads."""

    def distance(other: Machine) -> tuple[bool, float, float]:
        own, its = gpu.ceilings[_FLOP], other.gpus[0].ceilings[_FLOP]
        threads = other.host["usable_threads"] / machine.host["usable_threads"]
        is_other = other.gpus[0].facts["name"] != gpu.facts["name"]
        return is_other, abs(np.log(threads)), abs(np.log(own / its))

    with_gpu = [one for one in recorded if one.gpus and _FLOP in one.gpus[0].ceilings]
    return min(with_gpu, key=distance, default=None) if _FLOP in gpu.ceilings else None


def _has(gpu: Gpu, memory: str) -> bool:
    return all(f"{way}_bytes_per_s {memory}" in gpu.copies for way in ("h2d", "d2h"))


def _threshold(
    machine: Machine, gpu: Gpu, near: Machine, recording: Recording, memory: str
) -> Threshold:
    other = near.gpus[0]
    kernel = _fastest(_kernels(recording, other), "kernel_s")
    kernel *= other.ceilings[_FLOP] / gpu.ceilings[_FLOP]
    runs = recording.samples.query(_SQUARE)
    runs = runs[runs["device"] == CPU]
    one = runs["threads"] == 1
    cpu = {}
    for kind, own in (("one", runs[one]), ("all", runs[~one])):
        key = f"{_FLOP} {kind}"
        if len(own) and key in machine.cpu and key in near.cpu:
            cpu[kind] = _fastest(own, "total_s") * (near.cpu[key] / machine.cpu[key])
    least = max([kernel.index.min(), *(each.index.min() for each in cpu.values())])
    largest = min([kernel.index.max(), *(each.index.max() for each in cpu.values())])
    sizes = np.unique(np.geomspace(least, largest, _STEPS).round())
    squares = _ELEMENT_BYTES * sizes**2
    copies_s = 2 * _copy_s(gpu, "h2d", memory, squares) + _copy_s(gpu, "d2h", memory, squares)
    gpu_s = gpu.ceilings.get("empty_total_s", 0.0) + copies_s + _at(kernel, sizes)
    cpu_s = np.min([_at(each, sizes) for each in cpu.values()], axis=0)
    slower = np.flatnonzero(gpu_s >= cpu_s)
    first = slower[-1] + 1 if len(slower) else 0
    n = int(sizes[first]) if first < len(sizes) else None
    return Threshold(gpu.facts["device"], memory, n, int(least), int(largest), near.label)


def _kernels(recording: Recording, gpu: Gpu) -> pd.DataFrame:
    """Return the times of square float32 kernels: kernel-only, or in-run in older recordings."""
    in_run = recording.samples.rename(columns={"in_run_kernel_s": "kernel_s"})
    for rows in (recording.kernels, in_run):
        found = rows.query(_SQUARE)
        found = found[(found["device"] == gpu.facts["device"]) & found["kernel_s"].notna()]
        if len(found):
            break
    return found


def _fastest(rows: pd.DataFrame, time: str) -> pd.Series:
    """Return the least median time per size."""
    keys = ["n", "variant", "block_size", "threads"]
    medians = rows.groupby([key for key in keys if key in rows], dropna=False)[time].median()
    return medians.groupby("n").min()


def _at(times: pd.Series, sizes: FloatArray) -> FloatArray:
    known = times.index.to_numpy(float), times.to_numpy(float)
    return np.exp(np.interp(np.log(sizes), np.log(known[0]), np.log(known[1])))


def _copy_s(gpu: Gpu, way: str, memory: str, size_bytes: FloatArray) -> FloatArray:
    """Return the time of a copy; its throughput is constant outside the measured sizes."""
    known = gpu.copies[f"{way}_bytes_per_s {memory}"]
    at = np.log(sorted(known))
    rates = np.interp(np.log(size_bytes), at, [np.log(known[size]) for size in sorted(known)])
    return np.asarray(size_bytes / np.exp(rates))
