"""Simulated recordings: times computed from known parameters, marked as simulated."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import cpu_reference.catalog
from kernels.catalog.catalog import Catalog
from kernels.catalog.entries import CONTEXT, VARIANTS
from kernels.catalog.source import code_sha256
from kernels.catalog.user_supplied import catalog_of
from kernels.cubins.build import INSTRUMENTS, build_for
from kernels.products.elements import ELEMENTS, exact
from measurement.recording import recording
from measurement.recording.provenance_schema import FORMAT, lines_sha256
from measurement.recording.recording import CELL, Recording
from study.cells import CPU, Cell, cpu_cells, gpu_cells
from tests.support import ROOT, simulated_tables
from tests.support.cache import code, made
from tests.support.simulated_tables import BEGIN_UNIX_S, Rng
from tests.support.studies import study

BLOCK_SIZES = [1, 2, 4, 8, 16, 32]
# The variants for square matrices only, and the library. Those with tile shapes are excluded: their
# times rise in steps of waves, unlike the times here.
SQUARE_VARIANTS = [
    name
    for name, entry in VARIANTS.items()
    if name not in CONTEXT
    and not entry.fixed_blocks
    and (entry.kernel_name is None or (entry.kernel_name == name and entry.shapes == "square"))
]
# Enough for tests of comparing, joining and packing.
FEW = ("naive", "buffered_row", "block", "block_unroll4")
SERIES = [
    {"variants": variants, "dtypes": dtypes, "block_sizes": [32], "shapes": shapes}
    for variants, dtypes, shapes in (
        (["mm_naive", "mm_tile"], ["int32", "float32", "float64"], [256, "17x33x65"]),
        (["bmm_naive", "bmm_tile"], ["int32", "float64"], ["3x17x33x65"]),
        (["block", "block_padded"], ["float32"], [250]),
        (["cublas_sgemm", *sorted(CONTEXT)], ["float32", "float16", "bfloat16"], [512]),
    )
]
# True parameters of each simulated GPU.
RHO = 12.0
T_G_S = 2e-12
BYTES_PER_S = {"pinned": 24e9, "pageable": 6e9}
ALL_THREADS = 4
HOST_BYTES_PER_S = 3e9  # for transposing and padding
CPU_S_PER_FMA = {"naive": 2e-9, "loop_order": 4e-10, "column_buffered": 5e-10, "blocked": 2e-10}
CPU_S_PER_FMA |= {"packed": 2.5e-11, "blas": 2e-11}
PARALLEL_EFFICIENCY = 0.8
SPEEDUP = {"naive_coalesced": 4.0, "block_strided": 0.5, "block_unroll4": 3.0}
SPEEDUP |= {"block_unroll8": 3.5, "tile_uncoalesced": 0.6, "tile_transposed_b": 0.8}
SPEEDUP |= {"tile_conflict_free": 1.1, "outer_product": 20.0, "outer_product_unrolled": 24.0}
SPEEDUP |= {"outer_product_prefetch": 22.0, "register_tile": 60.0, "cublas_sgemm": 90.0}
SPEEDUP |= {"register_tile_double_buffered": 70.0, "register_tile_conflict_free": 80.0}
SPEEDUP |= {"register_tile_async": 75.0}
SPEEDUP |= {"cublas_default": 95.0, "cublas_tf32": 700.0}
SPEEDUP |= {"cublas_bf16": 1400.0, "cublas_fp16": 1300.0}
FLOAT64_FACTOR = 2.0
SOFTWARE: dict[str, Any] = {"driver": "550.1", "cuda_driver": "13.0", "cublas": "13.1.0"}
SOFTWARE |= {"nvcc": "13.2", "gcc": "13.3.0", "python": "3.12.3", "blas": "openblas"}
SOFTWARE |= {"blas_version": "0.3.30", "blas_architecture": "SkylakeX"}
SOFTWARE["packages"] = {"numpy": "2.4", "pycuda": None}


@dataclass(frozen=True)
class Power:
    """Throughput of a simulated GPU, as factors of that of the others."""

    units: float = 1.0
    memory: float = 1.0
    link: float = 1.0

    @property
    def speed(self) -> float:
        """Factor of its kernels: the slower of units and memory."""
        return min(self.units, self.memory)

    @property
    def ceilings(self) -> dict[str, float]:
        copies = dict.fromkeys(("h2d_bytes_per_s", "d2h_bytes_per_s"), self.link)
        return copies | {"fp32_flop_per_s": self.units, "device_copy_bytes_per_s": self.memory}


def kernel_time_s(cell: Cell) -> float:
    """Return the time by M0, divided by `SPEEDUP` for variants that M0 does not model.

    A product that is not square takes the time of a square product with as many FMAs.
    """
    shape = cell.shape
    n = shape.n if shape.is_square else (shape.flop / 2) ** (1 / 3)
    t_s = T_G_S / RHO
    blocked_s = 2 * n**3 * (T_G_S / (1 if cell.block_size is None else cell.block_size) + t_s)
    times_s = {"naive": 2 * n**3 * T_G_S, "buffered": n**3 * T_G_S + n**2 * T_G_S + n**3 * t_s}
    time_s = times_s.get(cell.product.entry.family, blocked_s)
    factor = FLOAT64_FACTOR if cell.dtype == "float64" else 1.0
    return time_s * factor / SPEEDUP.get(cell.variant, 1.0)


def cpu_time_s(cell: Cell) -> float:
    """Return a time proportional to N³; several threads have `PARALLEL_EFFICIENCY`."""
    threads = cell.threads or 1
    share = threads * PARALLEL_EFFICIENCY if threads > 1 else 1
    return CPU_S_PER_FMA[cell.variant] * float(cell.shape.n) ** 3 / share


def _gpu_cells(
    device: str, sizes: list[int], variants: Sequence[str], catalog: Catalog
) -> list[Cell]:
    changes = {"sizes": sizes, "variants": list(variants), "block_sizes": BLOCK_SIZES}
    changes |= {"series": SERIES, "host_memory": ["pinned", "pageable"]}
    return gpu_cells(study(changes, catalog), device)


def _cpu_cells(sizes: list[int]) -> list[Cell]:
    cpu = {"variants": list(CPU_S_PER_FMA), "sizes": sizes, "block_sizes": [16, 64]}
    return cpu_cells(study({"cpu": cpu | {"threads": [1, "all"]}}), ALL_THREADS)


def _check(cell: Cell) -> dict[str, object]:
    """Return a check: all pass except buffered kernels above N = 1024 and one wrong product."""
    row = cell.row()
    if cell.device == CPU:
        return row | {"status": "passed", "worst_error": 1e-6, "worst_bound": 1e-4}
    build = build_for(cell.product)
    row["build"] = build and build.kind
    if cell.variant in ("buffered_column", "buffered_row") and cell.shape.n > 1024:
        reason = f"needs {cell.shape.n} threads per block, 1024 allowed"
        return row | {"status": "not_launchable", "reason": reason}
    if (cell.variant, cell.shape.n, cell.block_size) == ("block_strided", 512, 1):
        row |= {"status": "failed", "reason": "1 of 262144 elements wrong"}
        return row | {"worst_row": 3, "worst_column": 5, "worst_error": 1.0, "worst_bound": 1e-4}
    return row | {"status": "passed", "worst_error": 1e-6, "worst_bound": 1e-4}


def _times(cell: Cell, power: Power) -> dict[str, float]:
    """Return the times of the parts of a GPU's run without noise, in seconds."""
    seen, size = cell.product.operands, ELEMENTS[cell.dtype].bytes
    host_s = size * seen.b_elements / HOST_BYTES_PER_S if cell.product.entry.host_step else np.nan
    rate = BYTES_PER_S[str(cell.host_memory)] * power.link
    copies = {"h2d_s": size * (seen.a_elements + seen.b_elements) / rate}
    copies["d2h_s"] = ELEMENTS[exact(cell.dtype)].bytes * seen.c_elements / rate
    return copies | {"kernel_s": kernel_time_s(cell) / power.speed, "host_s": host_s}


def _repeated(cells: list[Cell], count: int, columns: dict[str, np.ndarray]) -> pd.DataFrame:
    """Return `count` samples of each cell; columns have the shape (cells, count)."""
    rows = pd.DataFrame([cell.row() for cell in cells], columns=CELL)
    frame = rows.loc[rows.index.repeat(count)].reset_index(drop=True)
    number = np.arange(count)
    numbers = {"round": number, "position": 0, "time_unix_s": BEGIN_UNIX_S + number}
    shape = (len(cells), count)
    full = {name: np.broadcast_to(each, shape) for name, each in (columns | numbers).items()}
    return frame.assign(**{name: each.ravel() for name, each in full.items()})


def _cpu_samples(cells: list[Cell], count: int, noise: float, rng: Rng) -> pd.DataFrame:
    drawn = rng.standard_normal((len(cells), 5, count))
    time_s = np.array([cpu_time_s(cell) for cell in cells]).reshape(-1, 1)
    total_s = time_s * np.exp(noise * drawn[:, 0])
    others = np.array([(cell.threads or 1) - 1 for cell in cells]).reshape(-1, 1) * total_s
    clocks = simulated_tables.cpu_clocks(drawn[:, 3:])
    return _repeated(cells, count, {"total_s": total_s, "other_threads_s": others, **clocks})


def _gpu_samples(
    cells: list[Cell], throttled: int, power: Power, factor: np.ndarray
) -> pd.DataFrame:
    """Return samples with the noise `factor` of the shape (cells, 3, samples)."""
    # Work on the host has the noise of the copy to the GPU.
    noises = {"h2d_s": 0, "kernel_s": 1, "d2h_s": 2, "host_s": 0}
    known = pd.DataFrame([_times(cell, power) for cell in cells], columns=list(noises))
    times = {name: known[[name]].to_numpy() * factor[:, at] for name, at in noises.items()}
    times["total_s"] = sum(np.nan_to_num(each) for each in times.values()) + 5e-6
    return _repeated(cells, factor.shape[2], simulated_tables.with_telemetry(times, throttled))


def _provenance(gpus: int, sizes: list[int], holdout: list[int]) -> dict[str, Any]:
    limits = {"max_threads_per_block": 1024, "warp_size": 32, "l2_cache_bytes": 52428800}
    limits |= {"max_threads_per_multiprocessor": 2048, "max_blocks_per_multiprocessor": 32}
    limits |= {"registers_per_multiprocessor": 65536, "shared_bytes_per_multiprocessor": 233472}
    limits["max_shared_bytes_per_block_optin"] = 232448
    device = {"name": "", "compute_capability": "9.0", "multiprocessors": 0}
    device |= {"memory_bytes": 2**34, "limits": limits, "power_limit_w": 700.0, "ecc": True}
    device |= {"sm_clock_max_hz": 1_980_000_000, "memory_clock_max_hz": 2_619_000_000}
    device |= {"pcie_generation": 5, "pcie_width": 16, "persistence_mode": None}
    host = {"cpu_model": "Simulated CPU", "logical_cpus": 8, "usable_cpus": 4, "os": "Linux 6.1"}
    host |= {"usable_threads": ALL_THREADS, "memory_bytes": 2**33}
    catalogs = [*VARIANTS.values(), *cpu_reference.catalog.VARIANTS.values()]
    measured = {entry.source for entry in (*catalogs, *INSTRUMENTS) if entry.source}
    facts = {"format": FORMAT, "simulated": True, "seed": 1, "attempts": 1, "software": SOFTWARE}
    facts |= {"started_utc": "2024-01-01T00:00:00Z", "finished_utc": "2024-01-01T00:10:00Z"}
    return facts | {
        "host": host | {"caches": simulated_tables.CACHES},
        "devices": [{"device": f"gpu{index}", **device} for index in range(gpus)],
        "compile": {"nvcc_flags": ["-O3", "-std=c++17"], "gcc_flags": ["-O3"]},
        "git": {"commit": "0" * 40, "dirty": False},
        "configuration": {"sizes": sizes, "holdout_sizes": holdout, "series": SERIES},
        "sources": {path: code_sha256((ROOT / path).read_text()) for path in sorted(measured)},
        "phases": simulated_tables.phases(gpus),
    }


def recorded(**options: Any) -> Path:
    """Return the folder of a simulated recording, written once with the same `options`.

    The options are those of `write_recording`. Do not change the folder.
    """
    makers = [f"tests/support/{name}.py" for name in ("simulated", "simulated_tables", "studies")]
    packages = ("base", "cpu_reference", "kernels", "study", "measurement")
    inputs = [code(*packages, *makers), options]
    folder = made("recording", inputs, lambda out: write_recording(out / "recording", **options))
    return folder / "recording"


def tried(text: str, name: str = "mine", **options: Any) -> Path:
    """Return the folder of a recording with a user-supplied kernel of this source."""
    texts = {f"brought/{name}.cu": text.split("\n")}
    sources = {path: lines_sha256(lines) for path, lines in texts.items()}
    small = {"sizes": (256, 512), "holdout": (), "samples": 6, "complete": True}
    small["variants"] = ("naive", "naive_coalesced", "block", "cublas_sgemm", name)
    return recorded(**{**small, "sources": sources, "texts": texts, **options})


def make_recording(path: Path, **options: Any) -> Recording:
    """Write a simulated recording to `path`; `options` are those of `write_recording`."""
    made = recorded(**options)
    shutil.copytree(made, path)
    return replace(_read(made), path=path)


_read = cache(recording.read)


def write_recording(
    path: Path,
    gpus: int = 1,
    sizes: tuple[int, ...] = (256, 512, 1024, 2048),
    holdout: tuple[int, ...] = (1536,),
    samples: int = 12,
    noise: float = 0.01,
    seed: int = 0,
    throttled: int = 0,
    variants: Sequence[str] = SQUARE_VARIANTS,
    gpu_name: str = "Simulated GPU",
    cpu_model: str = "Simulated CPU",
    complete: bool = False,
    power: Power = Power(),
    **changes: object,
) -> Recording:
    """Write a simulated recording of `gpus` GPUs and their host's CPU to a folder.

    Square matrices have the sizes `sizes` and `holdout`, on GPUs with `variants`; all GPUs have
    `SERIES` too. `samples` per cell have lognormal noise; `throttled` samples of each GPU cell are
    slower and marked. `complete` adds launch latency to runs, sustained times and runs in pieces.
    The GPU follows M0 with RHO and T_G_S, scaled by its `power`. `changes` replaces keys of the
    provenance.
    """
    rng = np.random.default_rng(seed)
    catalog = catalog_of(changes.get("texts", {}))
    all_sizes = sorted([*sizes, *holdout])
    cells = _cpu_cells([n for n in sizes if n <= 1024])
    for index in range(gpus):
        cells += _gpu_cells(f"gpu{index}", all_sizes, variants, catalog)
    # Last and with their own noise: a new mode changes no other time.
    cells.sort(key=lambda cell: cell.variant in CONTEXT)
    check_rows = [_check(cell) for cell in cells]
    checks = pd.DataFrame(check_rows, columns=list(recording.TABLES["checks.csv"]))
    timed = [c for c, row in zip(cells, check_rows, strict=True) if row["status"] == "passed"]
    on_cpu, on_gpu = ([c for c in timed if (c.device == CPU) is side] for side in (True, False))
    own = _cpu_samples(on_cpu, samples, noise, rng)
    modes = sum(cell.variant in CONTEXT for cell in on_gpu)
    drawn = rng.standard_normal((len(on_gpu) - modes, 3, samples))
    of_modes = np.random.default_rng([seed, 1]).standard_normal((modes, 3, samples))
    factor = np.exp(noise * np.concatenate([drawn, of_modes]))
    table = pd.concat([own, _gpu_samples(on_gpu, throttled, power, factor)])

    def kernel_s(cell: Cell) -> float:
        return kernel_time_s(cell) / power.speed

    ceilings = simulated_tables.ceilings(gpus, ALL_THREADS, rng)
    factors = ceilings["quantity"].map(power.ceilings).fillna(1.0)
    ceilings["value"] *= factors.where(ceilings["device"] != CPU, 1.0)
    frames = {
        "samples.csv.gz": table.reindex(columns=list(recording.TABLES["samples.csv.gz"])),
        "checks.csv": checks,
        "builds.csv": simulated_tables.builds(gpus, catalog),
        "instructions.csv": simulated_tables.instructions(gpus),
        "cold_starts.csv": simulated_tables.cold_starts(table, rng),
        "ceilings.csv": ceilings,
        "neighbours.csv": simulated_tables.neighbours(table, gpus, rng),
    }
    frames["kernels.csv.gz"] = simulated_tables.kernels(timed, kernel_s, rng)
    if complete:
        on_gpu = frames["samples.csv.gz"]["device"] != CPU
        launching = on_gpu * simulated_tables.LAUNCH_S
        for name in ("kernel_s", "total_s"):
            frames["samples.csv.gz"][name] += launching
        frames["energy.csv"] = simulated_tables.energy(timed, kernel_s)
        frames["pieces.csv"] = simulated_tables.pieces(timed, BYTES_PER_S["pinned"])
    provenance = _provenance(gpus, list(sizes), list(holdout))
    for device in provenance["devices"]:
        device |= {"name": gpu_name, "multiprocessors": round(100 * power.units)}
    provenance["host"]["cpu_model"] = cpu_model
    return recording.write(path, provenance | changes, frames)
