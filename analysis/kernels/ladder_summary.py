"""Summary of the ladder: each kernel at its largest size, with cuBLAS and the ceilings."""

from collections.abc import Mapping

import pandas as pd

from analysis.data.cells import is_library, of_sizes, without_swept_naive
from analysis.data.frames import from_rows, stacked
from analysis.domain import CPU, verdict
from analysis.schema import renaming, with_bounds
from kernels.catalog.entries import LIBRARIES, VARIANTS
from kernels.catalog.product import BASELINE
from kernels.catalog.variant import UserSupplied

# Copies from pinned memory disturb the GPU least.
_MEMORY = ("pinned", "pageable")
_SPEEDUP = with_bounds("speedup")
_CELL = ("recording", "gpu", "variant", "n", "block_size", "samples")
_KERNEL = (*with_bounds("kernel_s"), "kernel_flop_per_s")
_KERNEL_OF = ("gpu", "variant", "n", "block_size")
_BOUNDS = ("units", "traffic_bytes", "share_of_units", "bound", "share_of_bound")


def ladder_summary_table(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return one row per GPU and kernel of square matrices, in the sequence of the catalog.

    Each kernel has its fastest block size (naive: 32) at its largest size. share_of_library: the
    library's kernel time at that size over the kernel's. speedup: of kernel times at that size over
    the previous step (`analysis.kernels.ladder`), or over the naive kernel in blocks of 32×32
    (`analysis.overview.speedups`). Units, traffic and bounds: see `analysis.kernels.roofline`.
    """
    cells = of_sizes(frames["summary"])
    cells = cells[cells["kernel_s"].notna() & (cells["device"] != CPU)]
    cells = cells.assign(samples=cells["kernel_samples"])
    cells = without_swept_naive(cells[cells["variant"].isin(_names())])
    names = list(VARIANTS)
    found = []
    for gpu, own in cells.groupby("gpu", sort=False):
        memory = next(kind for kind in _MEMORY if (own["host_memory"] == kind).any())
        own = own[own["host_memory"] == memory]
        library = own[is_library(own)].set_index("n")["kernel_s"]
        steps = _steps(frames, gpu, memory)
        rows = [_row(kernel, library, steps) for _, kernel in own.groupby("variant")]
        found += sorted(rows, key=lambda row: names.index(str(row["variant"])))
    bounds = frames["roofline"][[*_KERNEL_OF, *_BOUNDS]]
    summary = from_rows("ladder_summary", found).drop(columns=list(_BOUNDS))
    return stacked("ladder_summary", [summary.merge(bounds, how="left", on=list(_KERNEL_OF))])


def _names() -> list[str]:
    """Return the variants of the ladder (float32 only), libraries and user-supplied kernels."""
    entries = VARIANTS.items()
    return [n for n, v in entries if isinstance(v, UserSupplied) or v.dtypes == ("float32",)]


def _steps(frames: Mapping[str, pd.DataFrame], gpu: object, memory: str) -> pd.DataFrame:
    """Return the speedups of a GPU's kernels over the previous step, with bounds."""
    ladder, speedups = frames["ladder"], frames["speedups"]
    square = (ladder["m"] == ladder["n"]) & (ladder["k"] == ladder["n"]) & (ladder["batch"] == 1)
    steps = ladder[square & (ladder["gpu"] == gpu) & (ladder["host_memory"] == memory)]
    steps = steps[(steps["quantity"] == "kernel") & (steps["dtype"] == "float32")]
    steps = steps.loc[steps["after"] != BASELINE, ["variant", "n", *_SPEEDUP]]
    own = speedups[(speedups["source"] == gpu) & (speedups["host_memory"] == memory)]
    own = own.rename(columns=renaming("kernel_speedup", "speedup"))
    after_naive = [name for name, v in VARIANTS.items() if v.after == BASELINE]
    own = own.loc[own["variant"].isin(after_naive), ["variant", "n", "block_size", *_SPEEDUP]]
    return pd.concat([steps, own], ignore_index=True)


def _row(cells: pd.DataFrame, library: pd.Series, steps: pd.DataFrame) -> dict[str, object]:
    """Return the row of one kernel; `library` has the library's kernel times by size."""
    largest = cells[cells["n"] == cells["n"].max()]
    best = largest.loc[largest["kernel_s"].idxmin()]
    entry = VARIANTS[best["variant"]]
    row = {name: best[name] for name in (*_CELL, *_KERNEL)}
    row |= {"idea": entry.idea, "after": entry.after, "is_library": entry.name in LIBRARIES}
    row["share_of_library"] = library.get(best["n"], float("nan")) / best["kernel_s"]
    step = steps[(steps["variant"] == best["variant"]) & (steps["n"] == best["n"])]
    known = step["block_size"].isna() | (step["block_size"] == best["block_size"])
    step = step[known.fillna(True).astype(bool)]
    if not step.empty:
        bounds = {name: float(step.iloc[0][name]) for name in _SPEEDUP}
        row |= bounds | {"verdict": verdict(*bounds.values())}
    return row
