"""Speedups of every GPU cell over the naive kernel and over the host's CPU."""

import pandas as pd

from analysis.cpu.cells import baselines
from analysis.data.cells import is_source_naive
from analysis.data.frames import stacked
from analysis.data.recordings import MeasuredSource, with_gpu
from analysis.domain import CPU
from analysis.schema import bounded
from analysis.stats.estimates import FloatArray, ratios
from kernels.catalog.baselines import SPEEDUP_BASELINES

# Columns that identify the baselines that depend on the size.
_CHOSEN: dict[str, tuple[str, ...]] = {"own": ("variant", "block_size"), "blas_all": ("threads",)}
_CHOSEN["best"] = (*_CHOSEN["own"], *_CHOSEN["blas_all"])
_NO_ROW = -1  # an index without a cell: pandas cannot look up an index of only NA


def speedups_table(sources: list[MeasuredSource]) -> pd.DataFrame:
    """Return `speedups` of every GPU, with the columns source and machine first."""
    frames = []
    for source in with_gpu(sources):
        own = speedups(source.square_cells, source.draws)
        frames.append(own.assign(source=source.label, machine=source.machine))
    return stacked("speedups", frames)


def speedups(cells: pd.DataFrame, draws: dict[str, FloatArray]) -> pd.DataFrame:
    """Return the speedups of every GPU cell, with 95 % bootstrap intervals of ratios of medians.

    `cells` are `MeasuredSource.square_cells`; `draws` has the bootstrap medians of "total" and
    "kernel", shape (rows, draws); the index of `cells` selects the rows.

    total_speedup, kernel_speedup: over the naive kernel in blocks of 32×32 at the same size and
    host memory. cpu_NAME_speedup: end-to-end, over that CPU baseline at the
    same size; cpu_NAME_variant, _block_size and _threads identify it, naive_samples and
    cpu_NAME_samples count its samples. NaN without a baseline; bounds NaN with too few samples.
    """
    gpu = cells[cells["device"] != CPU]
    on_gpu = _row_of(gpu[is_source_naive(gpu)], gpu, ["n", "host_memory"])
    on_cpu = {name: _row_of(rows, gpu, ["n"]) for name, rows in baselines(cells).items()}
    compared = {"total_speedup": ("total", on_gpu), "kernel_speedup": ("kernel", on_gpu)}
    compared |= {f"cpu_{name}_speedup": ("total", on_cpu[name]) for name in SPEEDUP_BASELINES}
    rows = gpu.index.to_series()
    columns = ["n", "variant", "block_size", "host_memory", "sessions", "samples"]
    table = gpu[columns].reset_index(drop=True)
    table["naive_samples"] = cells["samples"].reindex(on_gpu.fillna(_NO_ROW)).array
    for speedup, (quantity, baseline) in compared.items():
        values = ratios(cells[f"{quantity}_s"], draws[quantity], baseline, rows)
        table = table.assign(**bounded(speedup, *values))
    for name in SPEEDUP_BASELINES:
        chosen = cells.reindex(on_cpu[name].fillna(_NO_ROW))
        for column in ("samples", *_CHOSEN.get(name, ())):
            table[f"cpu_{name}_{column}"] = chosen[column].array
    return table


def _row_of(baseline: pd.DataFrame, cells: pd.DataFrame, keys: list[str]) -> pd.Series:
    """Return for each of `cells` the index of the baseline with the same keys, NA if none."""
    rows = baseline[keys].assign(row=baseline.index)
    found = cells[keys].merge(rows, how="left", on=keys, validate="m:1")
    return found["row"].astype("Int64")
