"""How near each CPU variant comes to what its host can do at most, level by level of its memory.

The bytes that a product moves are by formula (`analysis.cpu.traffic`), the rates measured: of
FMAs, and of STREAM's triad over arrays that lie in memory or in one of the caches. What
passes between two levels takes at least its bytes over the rate of the farther one.
"""

import pandas as pd

from analysis.cpu.cells import ONE, with_threads
from analysis.cpu.hosts import LEVELS
from analysis.cpu.traffic import asked_bytes, fetched_bytes, is_bound
from analysis.data.frames import stacked
from analysis.data.recordings import Source, once_a_recording
from analysis.domain import CPU
from analysis.kernels.roofline import nearest_bound

COMPUTE, MEMORY = "compute", "memory"
BOUNDS = (COMPUTE, *(f"l{level}" for level in LEVELS), MEMORY)
# Where the flop a byte are from: the variant's own formula, or the least that any product moves.
BY_FORMULA, AT_MOST = "by formula", "at most"


def cpu_roofline_table(
    found: list[Source], ceilings: pd.DataFrame, hosts: pd.DataFrame
) -> pd.DataFrame:
    """Return one row a CPU variant and number of threads, with its fastest cell at its largest n.

    `ceilings` is `analysis.data.ceilings.ceilings_table`, `hosts`
    `analysis.cpu.hosts.hosts_table`. flop_per_byte_requested counts the bytes that the loops ask of
    the first-level cache, flop_per_byte_beyond_lK those that are fetched into the cache of level K.
    Each bound is the time that the bytes take at least at the rate of the level that serves them:
    asked bytes at that of the first level, those fetched into a cache at that of the next. On
    several threads the caches' rates are not known. The bound is the largest, share_of_bound its
    share of the time.
    """
    frames = []
    for source, cells in once_a_recording((source, source.orders) for source in found):
        cpu = cells[cells["device"] == CPU]
        if cpu.empty:
            continue
        known = ceilings[ceilings["recording"] == source.recording_id]
        known = known[(known["device"] == CPU) & known["threads"].notna()]
        rates = {
            (str(quantity), int(threads)): float(value)
            for quantity, threads, value in known[["quantity", "threads", "value"]].itertuples(
                index=False
            )
        }
        host = hosts[hosts["recording"] == source.recording_id].iloc[0]
        caches = {level: int(host[f"l{level}_bytes"]) for level in LEVELS if _has(host, level)}
        rows = [_row(cell, rates, caches) for cell in _fastest(cpu).to_dict("records")]
        frames.append(pd.DataFrame(rows).assign(recording=source.recording_id))
    return stacked("cpu_roofline", frames)


def _has(host: pd.Series, level: int) -> bool:
    return not pd.isna(host[f"l{level}_bytes"])


def _fastest(cpu: pd.DataFrame) -> pd.DataFrame:
    """Return of each variant, on one thread and on all, the fastest cell at its largest order."""
    cpu = cpu.assign(one=with_threads(cpu, ONE))
    groups = cpu.groupby(["variant", "one"])
    largest = cpu[cpu["n"] == groups["n"].transform("max")]
    return largest.loc[sorted(largest.groupby(["variant", "one"])["total_s"].idxmin())]


def _row(
    cell: dict[str, object], rates: dict[tuple[str, int], float], caches: dict[int, int]
) -> dict[str, object]:
    """Return the intensities and bounds of a cell; `caches` are sizes in bytes by level."""
    n, threads, variant = int(str(cell["n"])), int(str(cell["threads"])), str(cell["variant"])
    block = None if pd.isna(cell["block_size"]) else int(str(cell["block_size"]))
    time_s, flop = float(str(cell["total_s"])), 2.0 * n**3
    moved = {"requested": asked_bytes(variant, n)}
    moved |= {
        f"beyond_l{level}": fetched_bytes(variant, n, block, size) for level, size in caches.items()
    }
    row = cell | {"flop_per_s": flop / time_s}
    row["intensity"] = AT_MOST if is_bound(variant) else BY_FORMULA
    row |= {f"flop_per_byte_{of}": flop / traffic_bytes for of, traffic_bytes in moved.items()}
    work = {COMPUTE: (flop, "fp32_flop_per_s")}
    if caches:
        levels = [*(f"l{level}" for level in caches), MEMORY]
        work |= {
            level: (traffic_bytes, f"{level}_bytes_per_s")
            for level, traffic_bytes in zip(levels, moved.values(), strict=True)
        }
    bounds = {
        name: amount / rates[rate, threads]
        for name, (amount, rate) in work.items()
        if (rate, threads) in rates
    }
    row |= {f"{name}_bound_s": bound_s for name, bound_s in bounds.items()}
    return row | nearest_bound(bounds, time_s)
