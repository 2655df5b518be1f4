"""Tables 1–6 in the published layout, with published and measured times."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.data.frames import stacked
from analysis.data.published import MACHINES
from analysis.data.recordings import MeasuredSource, published_times
from analysis.domain import PUBLISHED
from analysis.schema import bounded, with_bounds
from analysis.stats.estimates import FloatArray, ratios


@dataclass(frozen=True)
class Entry:
    """One implementation in a table; its columns start with `name`.

    `speedup`: the column of its speedup over the first entry (blank: none); `rate`: in flop/s.
    """

    name: str
    implementation: str
    block_size: int | None = None
    speedup: str = ""
    rate: bool = False


_Layout = tuple[Entry, ...]
_NAIVE = Entry("naive", "gpu_naive")
_CPU_AND_GPU = (
    Entry("cpu", "cpu_naive", rate=True),
    Entry("gpu", "gpu_naive", speedup="speedup", rate=True),
)


def _entry(name: str, rate: bool = False) -> Entry:
    """Return the entry of a variant without block size."""
    return Entry(name, f"gpu_{name}", None, f"{name}_speedup", rate)


def _swept(name: str, block_sizes: tuple[int, ...]) -> tuple[Entry, ...]:
    """Return one entry per block size of a variant."""
    return tuple(Entry(f"{name}_{b}", f"gpu_{name}", b, f"{name}_{b}_speedup") for b in block_sizes)


_RATES = (_entry("buffered_column", rate=True), _entry("buffered_row", rate=True))
LAYOUTS: dict[int, _Layout] = {
    1: _CPU_AND_GPU,
    2: _CPU_AND_GPU,
    3: (_NAIVE, _entry("buffered_column")),
    4: (Entry("naive", "gpu_naive", rate=True), *_RATES),
    5: (_NAIVE, *_swept("block", (1, 2, 4, 8, 16, 32))),
    6: (_NAIVE, *_swept("block_unroll4", (4, 8, 16, 32))),
}


def tables(published: pd.DataFrame, sources: list[MeasuredSource]) -> dict[int, pd.DataFrame]:
    """Return Tables 1–6, first the published rows, then those of every source."""
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


def build(layout: _Layout, times: pd.DataFrame, draws: FloatArray | None = None) -> pd.DataFrame:
    """Return one table in the published layout, one row per size n with any of its times.

    `times` has implementation, n, block_size (NA: none), time_s and bounds in seconds; its index is
    the row in `draws` (bootstrap medians, shape (cells, draws)), which define the intervals of
    the speedups. Without draws, and for cells with too few samples, bounds are NaN. Each entry has
    NAME_time_s with bounds; by the layout, NAME_flop_per_s = 2n³/t and its speedup with bounds.
    """
    if draws is None:
        draws = np.full((int(times.index.max()) + 1, 1), np.nan)
    cells = {entry: _cells_of(entry, times) for entry in layout}
    sizes = sorted({int(n) for cell in cells.values() for n in cell.index})
    table = pd.DataFrame({"n": sizes}, dtype="int64")
    baseline = cells[layout[0]].reindex(sizes)
    for entry in layout:
        cell = cells[entry].reindex(sizes)
        table[with_bounds(f"{entry.name}_time_s")] = cell[with_bounds("time_s")].to_numpy()
        if entry.rate:
            flop = 2.0 * table["n"] ** 3
            table[f"{entry.name}_flop_per_s"] = flop / table[f"{entry.name}_time_s"]
        if entry.speedup:
            found = ratios(times["time_s"], draws, baseline["row"], cell["row"])
            table = table.assign(**bounded(entry.speedup, *found))
    return table


def _cells_of(entry: Entry, times: pd.DataFrame) -> pd.DataFrame:
    """Return an entry's times by n; the column row is their index in `times`."""
    chosen = times["implementation"] == entry.implementation
    if entry.block_size is None:
        chosen &= times["block_size"].isna()
    else:
        chosen &= times["block_size"] == entry.block_size
    return times[chosen.fillna(False)].rename_axis("row").reset_index().set_index("n")
