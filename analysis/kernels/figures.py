"""The figures of the kernels: ladder, throughput by size, roofline, parts of the run."""

from collections.abc import Callable

import pandas as pd
from matplotlib.figure import Figure

from analysis.data.best import fastest
from analysis.data.ceilings import rates_of
from analysis.data.cells import compared_memory, comparison_size, of_sizes
from analysis.data.devices import Device, Devices
from analysis.data.store import Store
from analysis.domain import CPU, SHAPE
from analysis.drawing import palette, style
from analysis.drawing.style import with_rates
from analysis.kernels import plots
from kernels.catalog.entries import LIBRARIES

# Copies from pinned memory disturb a kernel's time least.
_MEMORY = ("pinned", "pageable")


def ladder(store: Store, devices: Devices) -> Figure | None:
    """Draw the throughput of each kernel: bars for the GPU in focus, points for other GPUs."""
    # Of the naive kernel, only its fastest block size, which follows that of the source.
    rows = store["ladder_summary"].drop_duplicates(["gpu", "variant"], keep="last")
    gpus = [gpu for gpu in devices.gpus if (rows["gpu"] == gpu.label).any()]
    gpus = gpus[: style.MOST_COLOURS]
    if not gpus or gpus[0] is not devices.focus:
        return None
    of = {gpu.short: _in_tera(rows[rows["gpu"] == gpu.label]) for gpu in gpus}
    ceilings = store["ceilings"]
    own = ceilings[(ceilings["gpu"] == gpus[0].label) & (ceilings["quantity"] == "fp32_flop_per_s")]
    return plots.ladder(of, own["value"].max() / 1e12)


def _in_tera(rows: pd.DataFrame) -> pd.DataFrame:
    rates = with_rates(rows.assign(batch=1, m=rows["n"], k=rows["n"]), "kernel")
    return rates.assign(**{name: rates[name] / 1e3 for name in style.RATE})


def rate_size(store: Store, devices: Devices) -> Figure | None:
    """Draw kernel throughput over the matrix size, one panel per GPU."""
    panels = {
        gpu.short: fastest(_shown(_kernels(store, gpu)), "kernel_s", ["variant", "n"])
        for gpu in style.panelled(devices.gpus)
    }
    panels = {title: rows for title, rows in panels.items() if len(rows)}
    return plots.rates(panels, "n", "matrix size N") if panels else None


def _kernels(store: Store, gpu: Device) -> pd.DataFrame:
    """Return a GPU's kernel cells of the study's sizes, with throughput."""
    cells = of_sizes(store["summary"])
    own = cells[(cells["gpu"] == gpu.label).fillna(False) & (cells["device"] != CPU)]
    memory = next((kind for kind in _MEMORY if (own["host_memory"] == kind).any()), None)
    return with_rates(own[own["host_memory"] == memory], "kernel")


def _shown(kernels: pd.DataFrame) -> pd.DataFrame:
    """Return the kernels of source V and of libraries, and the fastest other kernel."""
    others = kernels[~kernels["variant"].isin({*palette.SOURCE_V, *LIBRARIES})]
    best = set(fastest(others[others["n"] == others["n"].max()], "kernel_s")["variant"])
    return kernels[kernels["variant"].isin({*palette.SOURCE_V, *LIBRARIES, *best})]


def rate_block(store: Store, devices: Devices) -> Figure | None:
    """Draw kernel throughput over the block size at the source's matrix size, one panel per GPU."""
    panels = {}
    for gpu in style.panelled(devices.gpus):
        cells = _kernels(store, gpu)
        cells = cells[cells["block_size"].notna() & cells["variant"].isin(palette.SOURCE_V)]
        if len(cells):
            panels[gpu.short] = cells[cells["n"] == comparison_size(cells)]
    return plots.rates(panels, "block_size", "block size B") if panels else None


def steps_size(store: Store, devices: Devices) -> Figure | None:
    """Draw the throughput of the steps of sources T and G over the matrix size, for the focus."""
    if devices.focus is None:
        return None
    cells = _kernels(store, devices.focus)
    rows = fastest(cells[cells["variant"].isin(palette.STEPS)], "kernel_s", ["variant", "n"])
    return plots.rates({devices.focus.short: rows}, "n", "matrix size N") if len(rows) else None


def split(store: Store, devices: Devices) -> Figure | None:
    """Draw the parts of a run of this study's fastest kernel, by matrix size."""
    if devices.focus is None:
        return None
    rows = store["ladder_summary"]
    own = rows[(rows["gpu"] == devices.focus.label) & rows["is_fastest"].fillna(False)]
    if own.empty:
        return None
    best = fastest(own, "kernel_s").iloc[0]
    cells = of_sizes(store["summary"])
    cells = cells[(cells["gpu"] == devices.focus.label) & (cells["variant"] == best["variant"])]
    if not pd.isna(best["block_size"]):
        cells = cells[cells["block_size"] == best["block_size"]]
    cells = cells.fillna({"host_s": 0.0}).dropna(subset=[*palette.PARTS, "total_s"])
    return plots.split(cells) if len(cells) else None


def roofline(store: Store, devices: Devices) -> Figure | None:
    """Draw the kernels of the GPU in focus below its measured ceilings."""
    if devices.focus is None:
        return None
    rows = store["roofline"]
    rows = rows[(rows["gpu"] == devices.focus.label) & rows["flop_per_byte_of_sectors"].notna()]
    if rows.empty:
        return None
    peak = rates_of(store["ceilings"], devices.focus.label).get("fp32_flop_per_s", float("nan"))
    flop = 2.0 * rows["n"].astype(float) ** 3
    rows = rows.assign(bound_flop_per_s=flop / rows["bound_s"])
    return plots.roofline(with_rates(rows, "kernel"), peak)


def shapes(store: Store, devices: Devices) -> Figure | None:
    """Draw the throughput of source L's kernels by shape and data type, for the focus."""
    if devices.focus is None:
        return None
    cells = store["summary"]
    own = cells[(cells["gpu"] == devices.focus.label) & cells["variant"].isin(palette.ANY_SHAPE)]
    own = own[own["kernel_s"].notna()]
    if own.empty:
        return None
    rows = with_rates(own[own["host_memory"] == compared_memory(own)], "kernel")
    return plots.shapes(fastest(rows, "kernel_s", ["variant", "dtype", *SHAPE]).sort_index())


FIGURES: dict[str, Callable[[Store, Devices], Figure | None]] = {
    "ladder": ladder,
    "rate-size": rate_size,
    "rate-block": rate_block,
    "steps-size": steps_size,
    "split": split,
    "roofline": roofline,
    "shapes": shapes,
}
