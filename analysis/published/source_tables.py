"""Tables 1–6 in the published layout, from published times and from measured ones alike."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.data.frames import stacked
from analysis.data.published import MACHINES
from analysis.data.recordings import Source, published_times
from analysis.domain import PUBLISHED
from analysis.schema import bounded, with_bounds
from analysis.stats.estimates import FloatArray, ratio_intervals


@dataclass(frozen=True)
class Entry:
    """One implementation in a table; its columns start with `name`.

    `gain` names the columns of its speedup over the table's first entry (empty: has none), `rate`
    says whether the table prints flop/s.
    """

    name: str
    implementation: str
    block_size: int | None = None
    speedup: str = ""
    rate: bool = False


_NAIVE = Entry("naive", "gpu_naive")
_CPU_AND_GPU = (
    Entry("cpu", "cpu_naive", rate=True),
    Entry("gpu", "gpu_naive", speedup="speedup", rate=True),
)


def _swept(name: str, block_sizes: tuple[int, ...]) -> tuple[Entry, ...]:
    """Return an entry for each block size of a variant."""
    return tuple(Entry(f"{name}_{b}", f"gpu_{name}", b, f"{name}_{b}_speedup") for b in block_sizes)


LAYOUTS: dict[int, tuple[Entry, ...]] = {
    1: _CPU_AND_GPU,
    2: _CPU_AND_GPU,
    3: (_NAIVE, Entry("buffered_column", "gpu_buffered_column", speedup="buffered_column_speedup")),
    4: (
        Entry("naive", "gpu_naive", rate=True),
        Entry("buffered_column", "gpu_buffered_column", None, "buffered_column_speedup", rate=True),
        Entry("buffered_row", "gpu_buffered_row", None, "buffered_row_speedup", rate=True),
    ),
    5: (_NAIVE, *_swept("block", (1, 2, 4, 8, 16, 32))),
    6: (_NAIVE, *_swept("block_unroll4", (4, 8, 16, 32))),
}


def tables(published: pd.DataFrame, sources: list[Source]) -> dict[int, pd.DataFrame]:
    """Return Tables 1–6 with the published rows first and then those of every source."""
    measured = [(source, source.times("total")) for source in sources]
    found = {}
    for number, layout in LAYOUTS.items():
        parts = [
            build(layout, published_times(rows, number)).assign(
                source=PUBLISHED, machine=MACHINES[str(machine)]
            )
            for machine, rows in published[published["table"] == number].groupby("machine")
        ]
        for source, times in measured:
            part = build(layout, times, source.draws["total"])
            parts.append(part.assign(source=source.label, machine=source.machine))
        found[number] = stacked(f"table{number}", parts)
    return found


def build(
    layout: tuple[Entry, ...], times: pd.DataFrame, draws: FloatArray | None = None
) -> pd.DataFrame:
    """Return one table in the published layout: a row a matrix order n that has any of its times.

    `times` has the columns implementation, n, block_size (NA: none), time_s, time_low_s,
    time_high_s in seconds; the numbers of its index are rows of `draws` (bootstrap medians, shape
    (cells, draws)), which give the gains' intervals. Without draws, and for single cells without
    samples enough, the bounds are NaN. Every entry has NAME_time_s, NAME_time_low_s,
    NAME_time_high_s; then NAME_flop_per_s = 2n³/t and FASTER, SPEEDUP_low, SPEEDUP_high as the layout says.
    """
    cells = {entry: _cells_of(entry, times) for entry in layout}
    orders = sorted({int(n) for cell in cells.values() for n in cell.index})
    table = pd.DataFrame({"n": orders}, dtype="int64")
    baseline = cells[layout[0]].reindex(orders)
    for entry in layout:
        cell = cells[entry].reindex(orders)
        table[with_bounds(f"{entry.name}_time_s")] = cell[with_bounds("time_s")].to_numpy()
        if entry.rate:
            table[f"{entry.name}_flop_per_s"] = (
                2.0 * table["n"] ** 3 / table[f"{entry.name}_time_s"]
            )
        if entry.speedup:
            speedup = (baseline["time_s"] / cell["time_s"]).to_numpy()
            bounds = _speedup_bounds(baseline["row"], cell["row"], draws)
            table = table.assign(**bounded(entry.speedup, speedup, *bounds))
    return table


def _cells_of(entry: Entry, times: pd.DataFrame) -> pd.DataFrame:
    """Return an entry's times by n, with their index in `times` as column row."""
    chosen = times["implementation"] == entry.implementation
    if entry.block_size is None:
        chosen &= times["block_size"].isna()
    else:
        chosen &= times["block_size"] == entry.block_size
    return times[chosen.fillna(False)].rename_axis("row").reset_index().set_index("n")


def _speedup_bounds(
    baseline: pd.Series, cell: pd.Series, draws: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Return the bounds of baseline over cell, NaN where either row of draws is missing."""
    low, high = np.full(len(cell), np.nan), np.full(len(cell), np.nan)
    known = (baseline.notna() & cell.notna()).to_numpy()
    if draws is not None and known.any():
        rows = [series.to_numpy()[known].astype(int) for series in (baseline, cell)]
        low[known], high[known] = ratio_intervals(draws[rows[0]], draws[rows[1]])
    return low, high
