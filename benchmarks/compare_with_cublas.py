"""Compare the fastest float32 variants with SGEMM of cuBLAS, in interleaved pairs.

    python -m benchmarks.compare_with_cublas [--pairs N] [--sizes N ...] [--out FILE]

The times are kernel-only, with warm caches, on GPU 0 (`GpuSession.kernel_time`). For variants with
several tile shapes, a few samples select the fastest shape. Then cuBLAS (pedantic FP32 mode) and
the variant run alternately; the order is swapped each pair, so that drift affects both. The ratio
of a pair is cuBLAS's time divided by the variant's. Its median has an interval by order statistics.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from base.errors import StudyError, exit_status
from base.files import write_atomic
from base.intervals import median_interval
from kernels.catalog.product import products_of
from kernels.cubins.build import INSTRUMENTS, builds_for
from kernels.cubins.compile import architecture, build_all
from kernels.cubins.toolchain import find_nvcc, nvcc_version
from kernels.products.matrices import Inputs
from kernels.products.shape import Shape
from kernels.theory.tiles import number_of
from measurement.devices import cublas
from measurement.devices.discovery import CudaDevice, select
from measurement.devices.gpu import GpuSession
from measurement.devices.session import DeviceSession
from measurement.recorder.provenance import drivers, utc_now
from study.cells import Cell, cell

SIZES = [128, 256, 512, 1000, 1024, 2048, 3000, 4001, 4096, 8192]
VARIANTS = ["sgemm_top", "sgemm_stream_k", "sgemm_tensor", "sgemm_tensor_tma"]
LIBRARY = "cublas_sgemm"
_DTYPE = "float32"
_LOOKS = 3  # samples of each tile shape, from which the fastest is chosen
_CONFIDENCE = 0.95
_SEED = 1


@dataclass(frozen=True)
class Comparison:
    """One variant and cuBLAS at one size: medians over the pairs, with times in seconds.

    The bounds are NaN if there are too few pairs for an interval.
    """

    variant: str
    block_size: int | None
    n: int
    pairs: int
    time_s: float
    library_s: float
    ratio: float
    ratio_low: float
    ratio_high: float

    def __str__(self) -> str:
        rate = 2 * self.n**3 / self.time_s / 1e12
        return (
            f"{self.variant:<16} {self.block_size or '':>6} {self.n:>5} {self.time_s * 1e6:>10.2f} "
            f"{rate:>7.2f} {self.library_s * 1e6:>10.2f} {self.ratio:>6.3f} "
            f"({self.ratio_low:.3f} – {self.ratio_high:.3f})"
        )


HEADING = f"{'variant':<16} {'tile':>6} {'N':>5} {'µs':>10} {'TFLOP/s':>7} {'cuBLAS µs':>10} ratio"


def compare(one: Cell, times_s: Sequence[float], library_s: Sequence[float]) -> Comparison:
    """Return the comparison from equally many times of a cell and of the library, in seconds."""
    ratios = np.divide(library_s, times_s)
    medians = median(times_s), median(library_s)
    found, number = median_interval(ratios, _CONFIDENCE), number_of(one.block_size)
    return Comparison(one.variant, number, one.shape.n, len(ratios), *medians, *found)


def fastest(session: DeviceSession, cells: Sequence[Cell]) -> Cell | None:
    """Return the cell with the smallest median of a few times; None if none can be launched."""
    able = [one for one in cells if session.not_launchable(one) is None]
    if len(able) < 2:
        return able[0] if able else None
    return min(able, key=lambda one: median(_time_s(session, one) for _ in range(_LOOKS)))


def pairs(session: DeviceSession, one: Cell, library: Cell, count: int) -> Comparison:
    """Time a cell and the library alternately, `count` times each."""
    times: dict[Cell, list[float]] = {one: [], library: []}
    for number in range(count):
        for each in (one, library) if number % 2 else (library, one):
            times[each].append(_time_s(session, each))
    return compare(one, times[one], times[library])


def _time_s(session: DeviceSession, one: Cell) -> float:
    return session.kernel_time(one, flushed=False).kernel_s


def measure(device: CudaDevice, folder: Path, sizes: Sequence[int], count: int) -> list[Comparison]:
    """Build the kernels in `folder` and compare them; print each result immediately."""
    shapes = [Shape.square(n) for n in sizes]
    wanted = list(products_of(VARIANTS, [_DTYPE], [], shapes))
    name = architecture(device.compute_capability)
    builds = [*builds_for(wanted), *INSTRUMENTS]
    built = build_all(find_nvcc(), builds, name, folder, len(os.sched_getaffinity(0)))
    found = []
    with GpuSession(device, Inputs([(_DTYPE, s) for s in shapes], _SEED), built, folder) as session:
        for shape in shapes:
            library = cell("gpu0", LIBRARY, _DTYPE, shape, None, "pinned")
            for variant in VARIANTS:
                cells = [
                    Cell("gpu0", product, "pinned")
                    for product in wanted
                    if (product.variant, product.shape) == (variant, shape)
                ]
                one = fastest(session, cells)
                if one is not None:
                    found.append(pairs(session, one, library, count))
                    print(found[-1], flush=True)
    return found


def _facts(device: CudaDevice, comparisons: list[Comparison]) -> dict[str, Any]:
    return {
        "date_utc": utc_now(),
        "gpu": device.name,
        **drivers(),
        "nvcc": nvcc_version(find_nvcc()),
        "comparisons": [asdict(comparison) for comparison in comparisons],
    }


def main() -> int:
    """Run the comparison; raise StudyError."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.compare_with_cublas",
        description="Compare the fastest float32 variants with cuBLAS SGEMM on GPU 0.",
    )
    parser.add_argument("--pairs", type=int, default=30, help="pairs per size (default: 30)")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="matrix sizes")
    parser.add_argument("--out", type=Path, help="also write the result to this JSON file")
    arguments = parser.parse_args()
    device = select(0)[0]
    if cublas.find_library() is None:
        raise StudyError(cublas.MISSING)
    print(HEADING, flush=True)
    with tempfile.TemporaryDirectory(prefix="gemm-study-") as folder:
        comparisons = measure(device, Path(folder), arguments.sizes, arguments.pairs)
    if arguments.out:
        write_atomic(arguments.out, json.dumps(_facts(device, comparisons), indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(exit_status(main))
