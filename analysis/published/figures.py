"""The figures that compare published numbers with measurements."""

import pandas as pd
from matplotlib.figure import Figure

from analysis.data.best import fastest
from analysis.data.cells import compared_memory
from analysis.data.devices import Devices
from analysis.data.store import Store
from analysis.domain import PUBLISHED, SOURCE_SIZE
from analysis.drawing import palette, style
from analysis.drawing.rows import dots, key
from analysis.drawing.style import RATE
from analysis.drawing.svg import INK, label
from analysis.schema import with_bounds
from kernels.catalog.baselines import SOURCE_NAIVE

# The swept kernels of source V, their published tables and block sizes.
_SWEPT = {"block": (5, (1, 2, 4, 8, 16, 32)), "block_unroll4": (6, (4, 8, 16, 32))}
_SPEEDUP = ("speedup", "speedup_low", "speedup_high")
_PRINTED = "published, GTX 770"
# Range of most GPUs in the text of source V on its Figure 2, in GFLOP/s.
_MOST_GPUS = (100, 300)
# Columns of figure2.csv that are drawn, with label and look.
_PERFORMANCE = {
    "kernel": ("kernel-only", palette.MEMORY["kernel"]),
    "pinned": ("pinned memory", palette.MEMORY["pinned"]),
    "pageable": ("pageable memory", palette.MEMORY["pageable"]),
}


def speedup_block(store: Store, devices: Devices) -> Figure | None:
    """Draw published and measured end-to-end speedups over the naive kernel by block size.

    The matrix size is the source's. There is one panel for each kernel whose block size it varied.
    """
    gpus = list(devices.gpus[: style.MOST_COLOURS])
    looks = style.looks_of(devices, "label")
    of_kernels = {name: _printed_speedups(store, name) for name in _SWEPT}
    figure, axes = style.panels(len(_SWEPT), height=3.0)
    for axis, (name, printed) in zip(axes, of_kernels.items(), strict=True):
        if len(printed):
            look = palette.Look(INK, "X", ":")
            style.points(axis, printed, "block_size", _SPEEDUP, look, _PRINTED, tell=style.times)
        for gpu in gpus:
            rows = _measured_speedups(store, gpu.label, name)
            if len(rows):
                look, text = looks[gpu.label], gpu.short
                style.points(axis, rows, "block_size", _SPEEDUP, look, text, tell=style.speedup)
        axis.set_title(name)
        axis.set_xlabel("block size B")
        style.log_axis(axis, "y")
        style.ticks_at(axis, _SWEPT[name][1])
    style.same_y(axes)
    axes[0].set_ylabel("speedup over naive")
    style.legend(figure, axes)
    return figure


def _printed_speedups(store: Store, name: str) -> pd.DataFrame:
    frame = store["source_tables"]
    printed = frame[(frame["source"] == PUBLISHED) & (frame["n"] == SOURCE_SIZE)]
    rows = printed[(printed["table"] == _SWEPT[name][0]) & printed["block_size"].notna()]
    return rows[["block_size", *_SPEEDUP]].astype(float)


def _measured_speedups(store: Store, label_of: str, name: str) -> pd.DataFrame:
    frame = store["speedups"]
    frame = frame[(frame["source"] == label_of) & (frame["n"] == SOURCE_SIZE)]
    frame = frame[(frame["baseline"] == SOURCE_NAIVE) & (frame["quantity"] == "total")]
    frame = frame[frame["variant"] == name]
    return frame[frame["host_memory"] == compared_memory(frame)].sort_values("block_size")


def figure2(store: Store, devices: Devices) -> Figure | None:
    """Draw Figure 2 of the source: its fastest kernel at its size per GPU, the fastest on top."""
    titles = {gpu.label: gpu.short for gpu in devices.gpus}
    gpus = store["figure2"]
    gpus = gpus[gpus["gpu"].isin(titles)].sort_values("kernel_flop_per_s", kind="stable")
    if gpus.empty:
        return None
    n = int(gpus["n"].iloc[0])
    places = {gpu: place for place, gpu in enumerate(gpus["gpu"], start=1)}
    figure, (axis,) = style.new_figure(width=8.0, height=1.5 + 0.26 * len(places))
    axis.axvspan(*_MOST_GPUS, color=palette.GREY, alpha=0.25, lw=0, label="source V, most GPUs")
    for name, (text, look) in _PERFORMANCE.items():
        rows = gpus[gpus[f"{name}_flop_per_s"].notna()]
        cells = rows.rename(columns={f"{name}_{c}": c for c in ("variant", "block_size")})
        names = [f"{text}, {each}" for each in style.cell_names(cells)]
        heights = list(rows["gpu"].map(places))
        rates = rows[with_bounds(f"{name}_flop_per_s")].astype(float) * 1e-9
        rates = rates.set_axis(list(RATE), axis=1)
        dots(axis, rates, RATE, heights, look, names, tell=style.gflops)
        key(axis, look, text)
    cells = store["audit_cells"]
    cells = cells[(cells["n"] == n) & cells["implementation"].str.startswith("gpu_")]
    if len(cells):
        printed = 2e-9 * n**3 / fastest(cells, "time_s")["time_s"].iloc[0]
        axis.scatter([printed], [0], marker="x", s=34, color=INK, label=_PRINTED)
    labels = {0: "GTX 770"} if len(cells) else {}
    labels |= {place: label(titles[gpu]) for gpu, place in places.items()}
    axis.set_yticks(list(labels), list(labels.values()))
    axis.set_ylim(min(labels) - 0.6, max(labels) + 0.6)
    axis.set_xlabel(f"throughput at N = {style.plain_number(n)} in GFLOP/s")
    style.log_axis(axis, "x")
    style.legend(figure, [axis])
    return figure


FIGURES = style.named(speedup_block, figure2)
