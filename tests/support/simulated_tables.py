"""The tables of a simulated recording besides samples and checks; see `simulated`."""

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd

from kernels.catalog.catalog import Catalog
from kernels.catalog.variant import UserSupplied
from measurement.recording.recording import CELL, TABLES
from study.cells import Cell

Time, Rng = Callable[[Cell], float], np.random.Generator
# The cell of cold starts and of measurements with neighbours.
STUDIED = ("block_unroll4", 32)
COLD_S = {"init_s": 0.05, "context_s": 0.12, "module_s": 0.002, "allocation_s": 0.001}
# Slowdown of copies by the traffic of other GPUs; kernels are not affected.
SLOWDOWN = {"pinned": 1.0, "pageable": 1.5}
THROTTLED_FACTOR = 1.3
SW_POWER_CAP = 0x4
SW_THERMAL_SLOWDOWN = 0x20
POWER_W, CLOCK_HZ = 500.0, 1_700_000_000
LAUNCH_S = 3e-6  # excess of an in-run kernel time
_PARTS = ["h2d_s", "kernel_s", "d2h_s"]
_CEILINGS = {"fp32_flop_per_s": 5e13, "device_copy_bytes_per_s": 2.5e12, "l2_bytes_per_s": 5e12}
_CEILINGS |= {"l1_bytes_per_s": 2e13, "shared_bytes_per_s": 2.4e13}
_CEILINGS |= {"shared_latency_s": 1.5e-8, "shared_latency_cycles": 29.0}
_CEILINGS |= {"l1_latency_s": 2e-8, "l1_latency_cycles": 38.0}
_CEILINGS |= {"l2_latency_s": 1.4e-7, "l2_latency_cycles": 260.0}
_CEILINGS |= {"dram_latency_s": 4e-7, "dram_latency_cycles": 750.0}
_CEILINGS |= {"timer_resolution_s": 4e-8, "empty_total_s": 1.2e-5}
_CEILINGS |= {"empty_h2d_s": 2e-6, "empty_kernel_s": 2e-6, "empty_d2h_s": 2e-6}
_CPU_CEILINGS = {"fp32_flop_per_s": 1.25e11, "memory_bytes_per_s": 1e10}
_CPU_CEILINGS |= {"l1_bytes_per_s": 2e11, "l2_bytes_per_s": 1e11, "l3_bytes_per_s": 3e10}
_CACHES = ((1, 2**15, 1), (2, 2**20, 1), (3, 2**24, 4))  # of one CPU of the host
CACHES = [{"level": level, "bytes": size, "shared_by": cpus} for level, size, cpus in _CACHES]
CPU_CLOCK_HZ = 3e9
BEGIN_UNIX_S = 1704067200.0  # 2024-01-01


def table(name: str, rows: list[dict[str, object]]) -> pd.DataFrame:
    """Return rows as the frame of one file of a recording; missing columns are empty."""
    return pd.DataFrame(rows, columns=list(TABLES[name]))


def with_telemetry(times: dict[str, np.ndarray], throttled: int) -> dict[str, np.ndarray]:
    """Return times of the shape (cells, samples) with the state of the GPU.

    The first `throttled` samples of each cell are slower and marked as power-capped, the first
    sample as thermally limited too.
    """
    number = np.arange(times["total_s"].shape[1])
    marked = number < throttled
    slowdown = np.where(marked, THROTTLED_FACTOR, 1.0)
    reasons = marked * SW_POWER_CAP + (marked & (number == 0)) * SW_THERMAL_SLOWDOWN
    return {name: each * slowdown for name, each in times.items()} | {
        "sm_clock_hz": np.where(marked, 1_500_000_000, 1_980_000_000),
        "memory_clock_hz": np.array(2_619_000_000),
        "temperature_celsius": 40 + number % 3,
        "power_w": np.where(marked, 700.0, 350.5),
        "throttle_reasons": reasons,
    }


def cpu_clocks(drawn: np.ndarray) -> dict[str, np.ndarray]:
    """Return clocks before and after; `drawn` are normal numbers (cells, 2, samples)."""
    clocks = CPU_CLOCK_HZ * np.exp(0.001 * drawn)
    clocks[:, 1, 0] = 0.9 * CPU_CLOCK_HZ  # it falls in the first sample of each cell
    before, after = np.rint(clocks).transpose(1, 0, 2)
    return {"cpu_clock_before_hz": before, "cpu_clock_after_hz": after}


# Kernel, block size, data type: registers, static shared bytes, main loop (opcode, width of
# accesses in bits, count). Outside the loop there are 20 % more instructions.
_BLOCK = "FFMA:32 LDS.32:32 LDS.128:8 LDG.32:2 STS.32:2 BAR:2 IADD3:22"
_UNROLLED = "FFMA:128 LDS.32:32 LDS.128:32 LDG.32:8 STS.32:8 BAR:2 IADD3:40"
_REGISTERS = "FFMA:512 LDS.128:32 LDG.128:2 STS.32:4 STS.128:1 BAR:2 IADD3:27"
BUILDS = {
    ("naive", 32, "float32"): (40, 0, "FFMA:4 LDG.32:8 IADD3:8"),
    ("naive_coalesced", 32, "float32"): (32, 0, "FFMA:4 LDG.32:8 IMAD:8"),
    ("block", 32, "float32"): (38, 8192, _BLOCK),
    ("block_unroll4", 32, "float32"): (40, 8192, _UNROLLED),
    ("buffered_row", None, "float32"): (24, 0, "FFMA:4 LDG.32:4 LDS.128:1 IADD3:1"),
    ("register_tile", None, "float32"): (128, 8192, _REGISTERS),
    ("mm_tile", 32, "int32"): (40, 8192, "IMAD:32 LDS.32:64 LDG.32:2 BAR:2 IADD3:20"),
}


def builds(gpus: int, catalog: Catalog) -> pd.DataFrame:
    """Return `BUILDS` and the probes, or none without a GPU."""
    kernels = [(*key, *facts[:2]) for key, facts in BUILDS.items()]
    for name, entry in catalog.items():
        blocks = (entry.block_sizes or [None]) if isinstance(entry, UserSupplied) else []
        kernels += [(name, block, entry.dtypes[0], 32, 0) for block in blocks]
    kernels += [("hold", None, "float32", 16, 0), ("probes", None, "float32", 40, 2048)]
    rows = [
        ("sm_90", name, dtype, block, "exact", registers, shared, 0, 0, 0, "13.2", f"{place:064x}")
        for place, (name, block, dtype, registers, shared) in enumerate(kernels)
    ]
    return pd.DataFrame(rows if gpus else [], columns=list(TABLES["builds.csv"]))


def instructions(gpus: int) -> pd.DataFrame:
    """Return the instructions of `BUILDS`, or none without a GPU."""
    rows = []
    for (name, block, dtype), (_, _, loop) in BUILDS.items():
        key = ("sm_90", name, dtype, block, "exact")
        of_loop = list(_loop(loop))
        others = ("MOV", 0, sum(count for _, _, count in of_loop) // 5)
        rows += [(*key, "kernel", *line) for line in (*of_loop, others)]
        rows += [(*key, "loop", *line) for line in of_loop]
    return pd.DataFrame(rows if gpus else [], columns=list(TABLES["instructions.csv"]))


def _loop(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield opcode, bits and count of every instruction of a loop in `BUILDS`."""
    for part in text.split():
        name, count = part.split(":")
        opcode, _, bits = name.partition(".")
        yield opcode, int(bits or 0), int(count)


def kernels(cells: list[Cell], kernel_time_s: Time, rng: Rng) -> pd.DataFrame:
    """Return ten kernel-only launches of every kernel."""
    rows = []
    for cell in _kernels(cells):
        for number in range(1, 11):
            time_s = kernel_time_s(cell) * float(np.exp(0.001 * rng.standard_normal()))
            row = {"round": number, "position": 0, "time_unix_s": BEGIN_UNIX_S + number}
            row |= {"launches": 1, "caches": "warm", "kernel_s": time_s}
            rows.append(cell.row() | row | {"sm_clock_hz": 1_980_000_000, "throttle_reasons": 0})
    return table("kernels.csv.gz", rows)


def energy(cells: list[Cell], kernel_time_s: Time) -> pd.DataFrame:
    """Return one second of launches of each kernel on square matrices, at `POWER_W`."""
    rows = []
    for cell in _kernels(cells):
        if not cell.shape.is_square or cell.dtype != "float32":
            continue
        launch_s = kernel_time_s(cell)
        row = {"launches": round(1 / launch_s), "duration_s": 1.0, "launch_s": launch_s}
        row |= {"power_w": POWER_W, "energy_j": POWER_W * launch_s, "idle_power_w": 100.0}
        row["sm_clock_hz"] = CLOCK_HZ
        rows.append(cell.row() | row)
    return table("energy.csv", rows)


def pieces(cells: list[Cell], bytes_per_s: float) -> pd.DataFrame:
    """Return a run in two and in four pieces of every square `STUDIED` kernel, and its copies."""
    rows = []
    for cell in _kernels(cells):
        if (cell.variant, cell.block_size) == STUDIED and cell.shape.is_square:
            copies_s = 12 * cell.shape.n**2 / bytes_per_s
            for count in (2, 4):
                row = cell.row() | {"gpus": 1, "pieces": count, "used": count // 4}
                row |= {"copies_s": copies_s / count, "run_s": 2 * copies_s / count}
                rows += [row | {"round": number} for number in range(1, 7)]
    return table("pieces.csv", rows)


def _kernels(cells: list[Cell]) -> Iterator[Cell]:
    yield from (cell for cell in cells if cell.host_memory == "pinned")


def cold_starts(samples: pd.DataFrame, rng: Rng) -> pd.DataFrame:
    """Return six starts of the largest pinned `STUDIED` cell of every GPU."""
    rows = []
    for cell, warm in _studied(samples, "pinned"):
        if cell["n"] != samples["n"].max():
            continue
        for number in range(1, 7):
            factor = float(np.exp(0.02 * rng.standard_normal()))
            row = {name: value * factor for name, value in COLD_S.items()}
            row |= {name: float(warm[name].median()) * factor for name in _PARTS}
            rows.append(cell | {"round": number} | row | {"total_s": sum(row.values())})
    return table("cold_starts.csv", rows)


def ceilings(gpus: int, all_threads: int, rng: Rng) -> pd.DataFrame:
    """Return six rounds of every quantity of every GPU and of the CPU."""
    timer = ("cpu", "timer_resolution_s", None, None, 3e-8)
    measured: list[tuple] = [timer, ("cpu", "empty_total_s", None, None, 8e-8)]
    on_cpu = [(name, 1, value) for name, value in _CPU_CEILINGS.items()]
    on_cpu += [("fp32_flop_per_s", all_threads, 4.5e11), ("memory_bytes_per_s", all_threads, 2e10)]
    for device in (f"gpu{index}" for index in range(gpus)):
        for quantity, value in _CEILINGS.items():
            size = 2**30 if quantity.startswith("device_copy") else None
            measured.append((device, quantity, None, size, value))
        for memory, rate in (("pinned", 5e10), ("pageable", 1e10)):
            for size in (2**12, 2**16, 2**20, 2**26):
                for direction in ("h2d", "d2h"):
                    reached = rate * size / (size + 2**18)
                    measured.append((device, f"{direction}_bytes_per_s", memory, size, reached))
    names = ("device", "quantity", "host_memory", "size_bytes", "value")
    known = [dict(zip(names, row, strict=True)) for row in measured]
    names = ("quantity", "threads", "value")
    known += [{"device": "cpu", **dict(zip(names, row, strict=True))} for row in on_cpu]
    rows = [row | {"round": number} for row in known for number in range(1, 7)]
    noise = np.exp(0.005 * rng.standard_normal(len(rows)))
    frame = table("ceilings.csv", rows)
    return frame.assign(value=frame["value"] * noise)


def neighbours(samples: pd.DataFrame, gpus: int, rng: Rng) -> pd.DataFrame:
    """Return twelve pairs of every `STUDIED` cell, with the copies slowed by `SLOWDOWN`."""
    rows = []
    for memory, slowdown in SLOWDOWN.items() if gpus > 1 else ():
        for cell, isolated in _studied(samples, memory):
            for number in range(1, 13):
                state = float(np.exp(0.05 * rng.standard_normal()))  # the same for both of a pair
                for count, factor in ((0, 1.0), (gpus - 1, slowdown)):
                    times = {name: float(isolated[name].median()) * state for name in _PARTS}
                    for name in times:
                        noise = float(np.exp(0.002 * rng.standard_normal()))
                        times[name] *= noise * (1.0 if name == "kernel_s" else factor)
                    times["total_s"] = sum(times.values()) + 5e-6
                    rows.append(cell | {"round": number, "neighbours": count} | times)
    return table("neighbours.csv", rows)


def phases(gpus: int) -> list[dict[str, object]]:
    on_gpu = [("start", 1.0, 0.0), ("ceilings", 3.0, 0.0), ("cold_starts", 2.0, 0.1)]
    on_gpu += [("checking", 4.0, 3.0), ("sampling", 20.0, 15.0)]
    on_gpu += [("neighbours", 2.0, 1.0)] if gpus > 1 else []
    on_cpu = [("ceilings", 0.1, 0.0), ("checking", 10.0, 9.0), ("sampling", 30.0, 29.0)]
    devices = {f"gpu{index}": on_gpu for index in range(gpus)} | {"cpu": on_cpu}
    names = ("device", "phase", "wall_s", "busy_s")
    rows = [(device, *phase) for device, phases in devices.items() for phase in phases]
    return [dict(zip(names, row, strict=True)) for row in rows]


def _studied(samples: pd.DataFrame, memory: str) -> Iterator[tuple[dict, pd.DataFrame]]:
    """Yield every `STUDIED` cell with one kind of host memory, and its samples."""
    rows = samples[(samples["variant"] == STUDIED[0]) & (samples["block_size"] == STUDIED[1])]
    for key, cell in rows[rows["host_memory"] == memory].groupby(CELL, dropna=False, sort=True):
        yield dict(zip(CELL, key, strict=True)), cell
