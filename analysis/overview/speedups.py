"""Gains of every GPU cell over the naive kernel and over the host's CPU."""

import pandas as pd

from analysis.cpu.cells import BASELINES, baselines
from analysis.data.frames import stacked
from analysis.data.recordings import Source, with_gpu
from analysis.domain import CPU
from analysis.schema import bounded
from analysis.stats.estimates import FloatArray, ratios
from kernels.catalog.product import BASELINE_BLOCK

# What a baseline is at an order, where that is not always the same.
_CHOSEN: dict[str, tuple[str, ...]] = {
    "own": ("variant", "block_size"),
    "blas_all": ("threads",),
    "best": ("variant", "block_size", "threads"),
}
# An index that no cell has: pandas cannot look up NA where it is all that is asked for.
_NO_ROW = -1


def speedups_table(sources: list[Source]) -> pd.DataFrame:
    """Return `gains` of every source that has a GPU, with the columns source and machine first."""
    return stacked(
        "speedups",
        (
            speedups(source.orders, source.draws).assign(
                source=source.label, machine=source.machine
            )
            for source in with_gpu(sources)
        ),
    )


def speedups(cells: pd.DataFrame, draws: dict[str, FloatArray]) -> pd.DataFrame:
    """Return the speedups of every GPU cell, with 95 % bootstrap intervals of ratios of medians.

    `cells` is `analysis.data.recordings.Source.orders`; `draws` holds the bootstrap medians of
    "total" and "kernel", shape (rows, draws), of which the index of `cells` names the rows.

    total_speedup and kernel_speedup: time of the naive kernel in blocks of 32×32, same n and host memory,
    over the cell's. cpu_NAME_speedup: time of that baseline of the CPU (`analysis.cpu.cells`) at the
    same n over the cell's total; cpu_NAME_variant, _block_size and _threads say what it is there.
    NaN where the other side was not measured; bounds NaN where either side has too few samples:
    naive_samples and cpu_NAME_samples are those of the other side, samples those of the cell.
    """
    gpu = cells[cells["device"] != CPU]
    naive = gpu[(gpu["variant"] == "naive") & (gpu["block_size"] == BASELINE_BLOCK).fillna(False)]
    on_gpu = _row_of(naive, gpu, ["n", "host_memory"])
    on_cpu = {name: _row_of(rows, gpu, ["n"]) for name, rows in baselines(cells).items()}
    compared = {"total_speedup": ("total", on_gpu), "kernel_speedup": ("kernel", on_gpu)}
    compared |= {f"cpu_{name}_speedup": ("total", on_cpu[name]) for name in BASELINES}
    rows = gpu.index.to_series()
    columns = ["n", "variant", "block_size", "host_memory", "sessions", "samples"]
    table = gpu[columns].reset_index(drop=True)
    table["naive_samples"] = cells["samples"].reindex(on_gpu.fillna(_NO_ROW)).array
    for speedup, (quantity, baseline) in compared.items():
        values = ratios(cells[f"{quantity}_s"], draws[quantity], baseline, rows)
        table = table.assign(**bounded(speedup, *values))
    for name in BASELINES:
        chosen = cells.reindex(on_cpu[name].fillna(_NO_ROW))
        for column in ("samples", *_CHOSEN.get(name, ())):
            table[f"cpu_{name}_{column}"] = chosen[column].array
    return table


def _row_of(baseline: pd.DataFrame, cells: pd.DataFrame, keys: list[str]) -> pd.Series:
    """Return for each of `cells` the index of its baseline with the same keys, NA if none."""
    rows = baseline[keys].assign(row=baseline.index)
    found = cells[keys].merge(rows, how="left", on=keys, validate="m:1")
    return found["row"].astype("Int64")
