"""Gains of every GPU cell over the naive kernel and over the host's CPU."""

import pandas as pd

from analysis.statistics import FloatArray, ratios
from analysis.study import BASELINE_BLOCK, CPU, Source

_GAINS = ("total_gain", "kernel_gain", "cpu_naive_gain", "cpu_best_gain")
COLUMNS = [
    *("source", "machine", "n", "variant", "block_size", "host_memory"),
    *(f"{gain}{bound}" for gain in _GAINS for bound in ("", "_low", "_high")),
    *("cpu_best_variant", "cpu_best_block_size"),
]


def gains_table(sources: list[Source]) -> pd.DataFrame:
    """Return `gains` of every source that has a GPU, with the columns source and machine first."""
    frames = [
        gains(source.orders, source.draws).assign(source=source.label, machine=source.machine)
        for source in sources
        if source.device
    ]
    return (
        pd.concat(frames, ignore_index=True)[COLUMNS] if frames else pd.DataFrame(columns=COLUMNS)
    )


def gains(cells: pd.DataFrame, draws: dict[str, FloatArray]) -> pd.DataFrame:
    """Return the gains of every GPU cell, with 95 % bootstrap intervals of ratios of medians.

    `cells` is `analysis.study.Source.orders`; `draws` holds the bootstrap medians of "total" and
    "kernel", shape (rows, draws), of which the index of `cells` names the rows.

    total_gain and kernel_gain: time of the naive kernel in blocks of 32×32, same n and host memory,
    over the cell's. cpu_naive_gain: the CPU's naive time at the same n over the cell's total.
    cpu_best_gain: the same for the CPU variant and block size that is fastest at that n. NaN where
    the other side was not measured; bounds NaN where either side has too few samples.
    """
    cells = cells.assign(row=cells.index)
    gpu = cells[cells["device"] != CPU]
    cpu = cells[cells["device"] == CPU]
    naive_gpu = gpu[
        (gpu["variant"] == "naive") & (gpu["block_size"] == BASELINE_BLOCK).fillna(False)
    ]
    naive_cpu = cpu[cpu["variant"] == "naive"]
    best_cpu = cpu.loc[cpu.groupby("n")["total_s"].idxmin()]
    baselines = {
        "total_gain": ("total", _row_of(naive_gpu, gpu, ["n", "host_memory"])),
        "kernel_gain": ("kernel", _row_of(naive_gpu, gpu, ["n", "host_memory"])),
        "cpu_naive_gain": ("total", _row_of(naive_cpu, gpu, ["n"])),
        "cpu_best_gain": ("total", _row_of(best_cpu, gpu, ["n"])),
    }
    table = gpu[["n", "variant", "block_size", "host_memory"]].reset_index(drop=True)
    for name, (quantity, baseline) in baselines.items():
        values = ratios(cells[f"{quantity}_s"], draws[quantity], baseline, gpu["row"])
        for bound, column in zip(("", "_low", "_high"), values, strict=True):
            table[f"{name}{bound}"] = column
    best = cells.reindex(baselines["cpu_best_gain"][1])
    table["cpu_best_variant"] = best["variant"].to_numpy()
    table["cpu_best_block_size"] = best["block_size"].array
    return table


def _row_of(baseline: pd.DataFrame, cells: pd.DataFrame, keys: list[str]) -> pd.Series:
    """Return for each of `cells` the row number of its baseline with the same keys, NA if none."""
    found = cells[keys].merge(baseline[[*keys, "row"]], how="left", on=keys, validate="m:1")
    return found["row"].astype("Int64")
