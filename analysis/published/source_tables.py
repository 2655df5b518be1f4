"""Tables 1–6 of source V, with published and with measured times."""

import numpy as np
import pandas as pd

from analysis.data.frames import stacked
from analysis.data.published import MACHINES
from analysis.data.recordings import MeasuredSource, published_times
from analysis.domain import PUBLISHED
from analysis.schema import bounded, with_bounds
from analysis.stats.estimates import FloatArray, ratios

Layout = dict[str, tuple[str, int | None]]  # (implementation, block size) by the name of an entry
_CPU_AND_GPU: Layout = {"cpu_naive": ("cpu_naive", None), "naive": ("gpu_naive", None)}
_COLUMN: Layout = {"buffered_column": ("gpu_buffered_column", None)}
_NAIVE: Layout = {"naive": ("gpu_naive", None)}


def _swept(name: str, block_sizes: tuple[int, ...]) -> Layout:
    return _NAIVE | {f"{name}_{block}": (f"gpu_{name}", block) for block in block_sizes}


# The entries of each table; speedups are over the first entry.
LAYOUTS: dict[int, Layout] = {
    1: _CPU_AND_GPU,
    2: _CPU_AND_GPU,
    3: _NAIVE | _COLUMN,
    4: _NAIVE | _COLUMN | {"buffered_row": ("gpu_buffered_row", None)},
    5: _swept("block", (1, 2, 4, 8, 16, 32)),
    6: _swept("block_unroll4", (4, 8, 16, 32)),
}


def source_tables(published: pd.DataFrame, sources: list[MeasuredSource]) -> pd.DataFrame:
    """Return one row per entry of Tables 1–6; in each, published entries precede measured ones."""
    measured = [(source, source.times("total")) for source in sources]
    parts = []
    for table, layout in LAYOUTS.items():
        for machine, rows in published[published["table"] == table].groupby("machine"):
            named = {"table": table, "source": PUBLISHED, "machine": MACHINES[str(machine)]}
            parts.append(entries(layout, published_times(rows, table)).assign(**named))
        for source, times in measured:
            named = {"table": table, "source": source.label, "machine": source.machine}
            parts.append(entries(layout, times, source.draws["total"]).assign(**named))
    return stacked("source_tables", parts)


def entries(layout: Layout, times: pd.DataFrame, draws: FloatArray | None = None) -> pd.DataFrame:
    """Return the entries of a table by n: time, throughput 2n³/t, and speedup over the first.

    `times` has implementation, n, block_size (NA: none), time_s and bounds in seconds; its index is
    the row in `draws` (bootstrap medians, shape (cells, draws)), which define the intervals of the
    speedups. Without draws, and for cells with too few samples, bounds are NaN.
    """
    if draws is None:
        draws = np.full((int(times.index.max()) + 1, 1), np.nan)
    cells = pd.concat([_cells_of(*which, times).assign(entry=e) for e, which in layout.items()])
    first = cells["entry"] == next(iter(layout))
    baseline = cells["n"].map(cells[first].set_index("n")["row"]).astype("Int64").mask(first)
    speedup = ratios(times["time_s"], draws, baseline, cells["row"])
    cells = cells.assign(**bounded("speedup", *speedup))
    cells["flop_per_s"] = 2.0 * cells["n"].astype(float) ** 3 / cells["time_s"]
    return cells.sort_values("n", kind="stable", ignore_index=True)


def _cells_of(implementation: str, block_size: int | None, times: pd.DataFrame) -> pd.DataFrame:
    """Return the times that belong to an entry; the column row is their index in `times`."""
    size = times["block_size"]
    fits = size.isna() if block_size is None else (size == block_size).fillna(False)
    chosen = fits & (times["implementation"] == implementation) & times["time_s"].notna()
    columns = ["row", "n", "block_size", *with_bounds("time_s")]
    return times[chosen].rename_axis("row").reset_index()[columns]
