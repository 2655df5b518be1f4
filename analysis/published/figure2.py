"""Figure 2 of source V as a table: V's fastest kernel on each GPU, and the GPU's properties."""

import pandas as pd

from analysis.data.best import fastest
from analysis.data.cells import comparison_size, of_sizes
from analysis.data.frames import from_rows, stacked
from analysis.data.recordings import MeasuredSource, with_gpu
from analysis.domain import CPU
from analysis.schema import bounded, interval_columns
from kernels.catalog.entries import VARIANTS

_SOURCE_V = {name for name, entry in VARIANTS.items() if entry.origin.startswith("V")}
# FLOP per byte with tiles of 32×32 in shared memory: 2·32³ operations for 2·32² float32 loads.
TILE_FLOP_PER_BYTE = 8.0
# The kernel only, or an end-to-end run from one kind of host memory; and its time in the summary.
_PARTS = {"kernel": "kernel", "pinned": "total", "pageable": "total"}


def figure2_table(
    sources: list[MeasuredSource], summary: pd.DataFrame, ceilings: pd.DataFrame
) -> pd.DataFrame:
    """Return one row per GPU: throughput of the fastest kernels of source V, and GPU properties.

    The size is the source's, or the largest measured. Throughput is given for kernel-only times,
    and for end-to-end runs from pinned and from pageable memory. `summary` and `ceilings` are the
    tables of these names. Memory bandwidth is measured by a copy within the GPU, link bandwidth by
    the largest copy from pinned host memory. Quantities without a measurement are empty.
    """
    cells = of_sizes(summary)
    cells = cells[(cells["device"] != CPU) & cells["variant"].isin(_SOURCE_V)]
    if cells.empty:
        return stacked("figure2", [])
    cells = cells[cells["n"] == comparison_size(cells)]
    links = ceilings["host_memory"].isna() | (ceilings["host_memory"] == "pinned")
    by_gpu = ceilings[links].sort_values("size_bytes").groupby(["gpu", "quantity"])["value"].last()
    return from_rows(
        "figure2",
        (
            {"recording": source.recording_id, "gpu": source.label, "gpu_name": source.gpu_name}
            | {"multiprocessors": source.gpu["multiprocessors"]}
            | _properties(by_gpu.get(source.label, pd.Series(dtype=float)))
            | _performance(cells[cells["gpu"] == source.label])
            for source in with_gpu(sources)
            if (cells["gpu"] == source.label).any()
        ),
    )


def _properties(measured: pd.Series) -> dict[str, object]:
    """Return the properties of a GPU; `measured` has its measured ceilings by quantity."""
    units, memory = measured.get("fp32_flop_per_s"), measured.get("device_copy_bytes_per_s")
    roofline = min(units, TILE_FLOP_PER_BYTE * memory) if units and memory else None
    return {
        "fma_flop_per_s": units,
        "memory_bytes_per_s": memory,
        "link_bytes_per_s": measured.get("h2d_bytes_per_s"),
        "roofline_flop_per_s": roofline,
    }


def _performance(cells: pd.DataFrame) -> dict[str, object]:
    """Return the highest throughputs of one GPU at one size, kernel-only and end-to-end."""
    row: dict[str, object] = {"n": cells["n"].iloc[0]}
    for name, part in _PARTS.items():
        runs = cells if name == "kernel" else cells[cells["host_memory"] == name]
        runs = runs[runs[f"{part}_s"].notna()]
        if len(runs):
            best = fastest(runs, f"{part}_s").iloc[0]
            flop = 2.0 * float(best["n"]) ** 3
            low, high = (flop / best[each] for each in interval_columns(f"{part}_s"))
            row |= bounded(f"{name}_flop_per_s", flop / best[f"{part}_s"], high, low)
            row |= {f"{name}_variant": best["variant"], f"{name}_block_size": best["block_size"]}
    return row
