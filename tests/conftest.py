"""Synthetic recordings: times computed from known parameters, marked as simulated."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import simulated_tables

import cpu_reference.catalog
import kernels.catalog
from analysis.model import m0_times
from measurement import recording
from measurement.discovery import CudaDevice, cuda_devices
from measurement.errors import StudyError
from measurement.files import sha256
from measurement.recording import CELL, Recording

ROOT = Path(__file__).resolve().parent.parent
BLOCK_SIZES = [1, 2, 4, 8, 16, 32]
# The truth behind every synthetic GPU.
RHO = 12.0
T_G_S = 2e-12
BYTES_PER_S = {"pinned": 24e9, "pageable": 6e9}
CPU_S_PER_ELEMENT = {"naive": 2e-9, "column_buffered": 5e-10, "blocked": 2e-10}
SPEEDUP = {"naive_coalesced": 4.0, "block_strided": 0.5, "block_unroll4": 3.0}

MakeRecording = Callable[..., Recording]


def kernel_time_s(variant: str, n: int, block_size: int | None) -> float:
    """M0 exactly; the variants that M0 does not know are a fixed factor faster or slower."""
    kind = kernels.catalog.VARIANTS[variant].family
    time_s = float(m0_times(kind, n, block_size or 1, T_G_S, T_G_S / RHO))  # type: ignore[arg-type]
    return time_s / SPEEDUP.get(variant, 1.0)


def _gpu_cells(device: str, sizes: list[int]) -> list[tuple[object, ...]]:
    return [
        (device, name, "float32", n, block, memory)
        for name in kernels.catalog.VARIANTS
        for block in kernels.catalog.block_sizes(name, BLOCK_SIZES)
        for n in sizes
        for memory in ("pinned", "pageable")
    ]


def _cpu_cells(sizes: list[int]) -> list[tuple[object, ...]]:
    study = {"variants": list(CPU_S_PER_ELEMENT), "sizes": sizes, "block_sizes": [16, 64]}
    return [
        ("cpu", name, "float32", n, block, None)
        for name, n, block in cpu_reference.catalog.cells(study)
    ]


def _check(cell: tuple[object, ...]) -> dict[str, object]:
    """All pass but buffered kernels above 1024 threads, and one cell whose product is wrong."""
    device, variant, _, n, block, _ = cell
    row: dict[str, object] = dict(zip(CELL, cell, strict=True))
    if device == "cpu":
        return row | {"status": "passed", "worst_error": 1e-6, "worst_bound": 1e-4}
    row["build"] = "exact" if block is None or n % block == 0 else "guarded"  # type: ignore[operator]
    if variant in ("buffered_column", "buffered_row") and n > 1024:  # type: ignore[operator]
        reason = f"needs {n} threads a block, 1024 allowed"
        return row | {"status": "not_launchable", "reason": reason}
    if (variant, n, block) == ("block_strided", 512, 1):
        return row | {
            "status": "failed",
            "reason": "1 of 262144 elements wrong",
            "worst_row": 3,
            "worst_column": 5,
            "worst_error": 1.0,
            "worst_bound": 1e-4,
        }
    return row | {"status": "passed", "worst_error": 1e-6, "worst_bound": 1e-4}


def _samples(
    cell: tuple[object, ...], count: int, noise: float, throttled: int, rng: np.random.Generator
) -> pd.DataFrame:
    device, variant, _, n, block, memory = cell
    frame = pd.DataFrame([cell] * count, columns=CELL)
    factor = np.exp(noise * rng.standard_normal((3, count)))
    if device == "cpu":
        frame["total_s"] = CPU_S_PER_ELEMENT[str(variant)] * float(n) ** 3 * factor[0]  # type: ignore[arg-type]
    else:
        matrix_s = 4.0 * float(n) ** 2 / BYTES_PER_S[str(memory)]  # type: ignore[arg-type]
        frame["h2d_s"] = 2 * matrix_s * factor[0]
        frame["kernel_s"] = kernel_time_s(str(variant), int(n), block) * factor[1]  # type: ignore[call-overload,arg-type]
        frame["d2h_s"] = matrix_s * factor[2]
        frame["total_s"] = frame["h2d_s"] + frame["kernel_s"] + frame["d2h_s"] + 5e-6
        frame = simulated_tables.with_telemetry(frame, throttled)
    return frame.assign(round=range(count), position=0, time_unix_s=1.7e9 + np.arange(count))


def _provenance(gpus: int, sizes: list[int], holdout: list[int]) -> dict[str, object]:
    device = {
        "name": "Simulated GPU",
        "compute_capability": "9.0",
        "multiprocessors": 100,
        "memory_bytes": 2**34,
        "limits": {"max_threads_per_block": 1024, "warp_size": 32},
    }
    catalogs = [*kernels.catalog.VARIANTS.values(), *cpu_reference.catalog.VARIANTS.values()]
    measured = [entry.source for entry in (*catalogs, kernels.catalog.PROBES)]
    return {
        "format": 2,
        "simulated": True,
        "started_utc": "2024-01-01T00:00:00Z",
        "finished_utc": "2024-01-01T00:10:00Z",
        "host": {
            "cpu_model": "Simulated CPU",
            "logical_cpus": 8,
            "usable_cpus": 4,
            "memory_bytes": 2**33,
            "os": "Linux 6.1",
        },
        "devices": [{"device": f"gpu{index}", **device} for index in range(gpus)],
        "software": {
            "driver": "550.1",
            "nvcc": "13.2",
            "packages": {"numpy": "2.4", "pycuda": None},
        },
        "compile": {"nvcc_flags": ["-O3", "-std=c++17"], "gcc_flags": ["-O3"]},
        "git": {"commit": "0" * 40, "dirty": False},
        "configuration": {"sizes": sizes, "holdout_sizes": holdout},
        "seed": 1,
        "sources": {path: sha256(ROOT / path) for path in measured},
        "sittings": 1,
        "phases": simulated_tables.phases(gpus),
    }


@pytest.fixture(scope="session")
def make_recording() -> MakeRecording:
    """Write a simulated recording to a folder.

    `gpus` devices and their host's CPU, orders `sizes` and `holdout`, `samples` a cell with
    lognormal noise, `throttled` of each GPU cell's slower and marked; `changes` replaces keys of
    the provenance. The GPU follows M0, RHO and T_G_S.
    """

    def make(
        path: Path,
        gpus: int = 1,
        sizes: tuple[int, ...] = (256, 512, 1024, 2048),
        holdout: tuple[int, ...] = (1536,),
        samples: int = 12,
        noise: float = 0.01,
        seed: int = 0,
        throttled: int = 0,
        **changes: object,
    ) -> Recording:
        rng = np.random.default_rng(seed)
        orders = sorted([*sizes, *holdout])
        cells = _cpu_cells([n for n in sizes if n <= 1024])
        for index in range(gpus):
            cells += _gpu_cells(f"gpu{index}", orders)
        check_rows = [_check(cell) for cell in cells]
        checks = pd.DataFrame(check_rows, columns=list(recording.TABLES["checks.csv"]))
        timed = [c for c, row in zip(cells, check_rows, strict=True) if row["status"] == "passed"]
        table = pd.concat([_samples(cell, samples, noise, throttled, rng) for cell in timed])
        frames = {
            "samples.csv.gz": table.reindex(columns=list(recording.TABLES["samples.csv.gz"])),
            "checks.csv": checks,
            "builds.csv": simulated_tables.builds(gpus),
            "batches.csv": simulated_tables.batches(timed, kernel_time_s, rng),
            "cold_starts.csv": simulated_tables.cold_starts(table, rng),
            "ceilings.csv": simulated_tables.ceilings(gpus, rng),
            "neighbours.csv": simulated_tables.neighbours(table, gpus, rng),
        }
        provenance = _provenance(gpus, list(sizes), list(holdout)) | changes
        return recording.write(path, provenance, frames)

    return make


@pytest.fixture(scope="session")
def gpu_recording(
    make_recording: MakeRecording, tmp_path_factory: pytest.TempPathFactory
) -> Recording:
    """A simulated recording of one GPU and its host; shared by tests, not to be changed."""
    return make_recording(tmp_path_factory.mktemp("recordings") / "card")


@pytest.fixture(scope="session")
def cpu_recording(
    make_recording: MakeRecording, tmp_path_factory: pytest.TempPathFactory
) -> Recording:
    """A small simulated recording of a host without GPU; shared by tests, not to be changed."""
    return make_recording(tmp_path_factory.mktemp("recordings") / "host", gpus=0, sizes=(256, 512))


@pytest.fixture(scope="session")
def card() -> CudaDevice:
    """The first GPU of this host; where there is none, what asks for it is skipped."""
    try:
        cards = cuda_devices()
    except StudyError as error:
        pytest.skip(str(error))
    if not cards:
        pytest.skip("no NVIDIA GPU on this host")
    return cards[0]
