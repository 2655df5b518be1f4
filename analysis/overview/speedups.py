"""The speedups of every GPU cell over the naive kernel and over the host's CPU."""

import pandas as pd

from analysis.cpu.cells import baselines
from analysis.data.cells import is_source_naive
from analysis.data.frames import stacked
from analysis.data.recordings import MeasuredSource, with_gpu
from analysis.domain import CPU, verdict
from analysis.schema import bounded, with_bounds
from analysis.stats.estimates import FloatArray, quotients, ratios
from kernels.catalog.baselines import BEST, SOURCE_NAIVE

FASTEST_CPU = f"cpu_{BEST}"
_CELL = ["n", "variant", "block_size", "host_memory"]
_BASELINE = ["variant", "block_size", "threads"]


def speedups_table(sources: list[MeasuredSource]) -> pd.DataFrame:
    """Return `speedups` of every GPU; is_answer: the largest over the CPU at the largest size."""
    frames = []
    for source in with_gpu(sources):
        rows = speedups(source.square_cells, source.draws)
        over_cpu = rows[rows["baseline"] == FASTEST_CPU]
        largest = over_cpu[over_cpu["n"] == over_cpu["n"].max()]
        answer = largest["speedup"].idxmax() if len(largest) else None
        frames.append(rows.assign(source=source.label, is_answer=rows.index == answer))
    return stacked("speedups", frames)


def speedups(cells: pd.DataFrame, draws: dict[str, FloatArray]) -> pd.DataFrame:
    """Return one row per GPU cell, quantity and baseline: the speedup with its 95 % interval.

    Over a CPU, intervals are those of independent times (`analysis.stats.estimates.quotients`).
    Over a kernel of the same GPU, they are bootstrap intervals.

    `cells` are `MeasuredSource.square_cells`; `draws` has the bootstrap medians of "total" and
    "kernel", shape (rows, draws); the index of `cells` selects the rows.

    Baseline `SOURCE_NAIVE`: the naive kernel in blocks of 32×32 at the same size and host memory,
    for both quantities. Baselines cpu_NAME: the CPU baseline NAME (`analysis.cpu.cells`) at the
    same size. baseline_variant, _block_size and _threads identify its cell. Bounds are NaN with too
    few samples. A cell without a baseline has no row.
    """
    gpu = cells[cells["device"] != CPU]
    naive = gpu[is_source_naive(gpu)]
    compared = [
        (SOURCE_NAIVE, quantity, naive, ["n", "host_memory"]) for quantity in ("total", "kernel")
    ]
    compared += [(f"cpu_{name}", "total", rows, ["n"]) for name, rows in baselines(cells).items()]
    frames = []
    for baseline, quantity, rows, same in compared:
        names = {name: f"baseline_{name}" for name in _BASELINE}
        named = rows[[*same, *_BASELINE]].rename(columns=names).assign(baseline_row=rows.index)
        pairs = gpu[_CELL].assign(row=gpu.index).merge(named, on=same, validate="m:1")
        sides = pairs["baseline_row"], pairs["row"]
        if baseline == SOURCE_NAIVE:
            values = ratios(cells[f"{quantity}_s"], draws[quantity], *sides)
        else:
            times = (cells.loc[side, with_bounds("total_s")].to_numpy(float).T for side in sides)
            values = tuple(quotients(*times))
        pairs = pairs.assign(baseline=baseline, quantity=quantity, **bounded("speedup", *values))
        frames.append(pairs[pairs["speedup"].notna()])
    table = pd.concat(frames, ignore_index=True)
    words = map(verdict, *(table[name] for name in ("speedup", "speedup_low", "speedup_high")))
    return table.assign(verdict=list(words))
