"""The roofline of a CPU: each variant compared with the ceilings of its memory levels.

Traffic follows from formulas (`analysis.cpu.traffic`). The measured ceilings are FMA throughput,
and the bandwidth of STREAM's triad over arrays in memory or in one of the caches. Traffic between
two levels takes at least its bytes over the bandwidth of the farther level.
"""

import pandas as pd

from analysis.cpu.cells import ONE, with_threads
from analysis.cpu.hosts import LEVELS
from analysis.cpu.traffic import fetched_bytes, is_bound, requested_bytes
from analysis.data.best import fastest
from analysis.data.cells import whole
from analysis.data.frames import stacked
from analysis.data.recordings import MeasuredSource, once_per_recording
from analysis.domain import CPU
from analysis.kernels.roofline import nearest_bound

COMPUTE, MEMORY = "compute", "memory"
BOUNDS = (COMPUTE, *(f"l{level}" for level in LEVELS), MEMORY)
# Source of flop per byte: the variant's formula, or the least traffic of any product.
BY_FORMULA, AT_MOST = "by formula", "at most"


def cpu_roofline_table(
    sources: list[MeasuredSource], ceilings: pd.DataFrame, hosts: pd.DataFrame
) -> pd.DataFrame:
    """Return one row per CPU variant and number of threads: its fastest cell at its largest size.

    `ceilings` and `hosts` are the tables ceilings and cpu_hosts. flop_per_byte_requested: over the
    bytes that the loops request from L1; flop_per_byte_beyond_lK: over the bytes fetched into the
    cache of level K. Each bound is the least time of the traffic at the bandwidth of the level that
    serves it. L1 serves requested bytes; the next level serves bytes fetched into a cache.
    Bandwidths of caches are measured on one thread only. bound: the largest bound; share_of_bound:
    its share of the time.
    """
    frames = []
    for source, cells in once_per_recording((source, source.square_cells) for source in sources):
        cpu = cells[cells["device"] == CPU]
        if cpu.empty:
            continue
        rates = rates_by_threads(ceilings, source.recording_id)
        host = hosts[hosts["recording"] == source.recording_id].iloc[0]
        sizes = {level: whole(host[f"l{level}_bytes"]) for level in LEVELS}
        caches = {level: size for level, size in sizes.items() if size is not None}
        # The fastest cell of each variant at its largest size, on one thread and on all.
        cpu = cpu.assign(one=with_threads(cpu, ONE))
        largest = cpu[cpu["n"] == cpu.groupby(["variant", "one"])["n"].transform("max")]
        cells = fastest(largest, "total_s", ["variant", "one"]).sort_index()
        rows = [_row(cell, rates, caches) for cell in cells.to_dict("records")]
        frames.append(pd.DataFrame(rows).assign(recording=source.recording_id))
    return stacked("cpu_roofline", frames)


def rates_by_threads(ceilings: pd.DataFrame, recording: str) -> dict[tuple[str, int], float]:
    """Return a CPU's ceilings in SI units by quantity and number of threads."""
    of_cpu = ceilings[(ceilings["recording"] == recording) & (ceilings["device"] == CPU)]
    rows = of_cpu[of_cpu["threads"].notna() & of_cpu["value"].notna()]
    values = rows[["quantity", "threads", "value"]].itertuples(index=False)
    return {(str(name), int(threads)): float(value) for name, threads, value in values}


def _row(
    cell: dict[str, object], rates: dict[tuple[str, int], float], caches: dict[int, int]
) -> dict[str, object]:
    """Return the intensities and bounds of a cell; `caches` are sizes in bytes by level."""
    n, threads, variant = int(str(cell["n"])), int(str(cell["threads"])), str(cell["variant"])
    block = whole(cell["block_size"])
    time_s, flop = float(str(cell["total_s"])), 2.0 * n**3
    traffic = {"requested": requested_bytes(variant, n)}
    traffic |= {
        f"beyond_l{level}": fetched_bytes(variant, n, block, size) for level, size in caches.items()
    }
    row = cell | {"flop_per_s": flop / time_s}
    row["intensity"] = AT_MOST if is_bound(variant) else BY_FORMULA
    row |= {f"flop_per_byte_{part}": flop / size for part, size in traffic.items()}
    work = {COMPUTE: (flop, "fp32_flop_per_s")}
    if caches:
        levels = [*(f"l{level}" for level in caches), MEMORY]
        sizes = zip(levels, traffic.values(), strict=True)
        work |= {level: (size, f"{level}_bytes_per_s") for level, size in sizes}
    bounds = {
        name: amount / rates[rate, threads]
        for name, (amount, rate) in work.items()
        if (rate, threads) in rates
    }
    row |= {f"{name}_bound_s": bound_s for name, bound_s in bounds.items()}
    return row | nearest_bound(bounds, time_s)
