"""Gains of every GPU cell over the naive kernel and over the host's CPU."""

import pandas as pd

from analysis.cpu.cells import YARDSTICKS, yardsticks
from analysis.data.recordings import Source
from analysis.domain import CPU
from analysis.stats.estimates import FloatArray, ratios
from kernels.plan import BASELINE_BLOCK

_GAINS = ("total_gain", "kernel_gain", *(f"cpu_{name}_gain" for name in YARDSTICKS))
# What a yardstick is at an order, where that is not always the same.
_CHOSEN: dict[str, tuple[str, ...]] = {
    "own": ("variant", "block_size"),
    "blas_all": ("threads",),
    "best": ("variant", "block_size", "threads"),
}
COLUMNS = [
    *("source", "machine", "n", "variant", "block_size", "host_memory"),
    *(f"{gain}{bound}" for gain in _GAINS for bound in ("", "_low", "_high")),
    *(f"cpu_{name}_{column}" for name, columns in _CHOSEN.items() for column in columns),
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

    `cells` is `analysis.data.recordings.Source.orders`; `draws` holds the bootstrap medians of
    "total" and "kernel", shape (rows, draws), of which the index of `cells` names the rows.

    total_gain and kernel_gain: time of the naive kernel in blocks of 32×32, same n and host memory,
    over the cell's. cpu_NAME_gain: time of that yardstick of the CPU (`analysis.cpu.cells`) at the
    same n over the cell's total; cpu_NAME_variant, _block_size and _threads say what it is there.
    NaN where the other side was not measured; bounds NaN where either side has too few samples.
    """
    cells = cells.assign(row=cells.index)
    gpu = cells[cells["device"] != CPU]
    naive_gpu = gpu[
        (gpu["variant"] == "naive") & (gpu["block_size"] == BASELINE_BLOCK).fillna(False)
    ]
    cpu = {name: _row_of(rows, gpu, ["n"]) for name, rows in yardsticks(cells).items()}
    baselines = {
        "total_gain": ("total", _row_of(naive_gpu, gpu, ["n", "host_memory"])),
        "kernel_gain": ("kernel", _row_of(naive_gpu, gpu, ["n", "host_memory"])),
        **{f"cpu_{name}_gain": ("total", rows) for name, rows in cpu.items()},
    }
    table = gpu[["n", "variant", "block_size", "host_memory"]].reset_index(drop=True)
    for gain, (quantity, baseline) in baselines.items():
        values = ratios(cells[f"{quantity}_s"], draws[quantity], baseline, gpu["row"])
        for bound, value in zip(("", "_low", "_high"), values, strict=True):
            table[f"{gain}{bound}"] = value
    for name, columns in _CHOSEN.items():
        for column in columns:
            chosen: pd.Series = cells[column].reindex(cpu[name])
            table[f"cpu_{name}_{column}"] = chosen.array
    return table


def _row_of(baseline: pd.DataFrame, cells: pd.DataFrame, keys: list[str]) -> pd.Series:
    """Return for each of `cells` the row number of its baseline with the same keys, NA if none."""
    found = cells[keys].merge(baseline[[*keys, "row"]], how="left", on=keys, validate="m:1")
    return found["row"].astype("Int64")
