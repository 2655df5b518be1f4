"""The figures of what the sources print, beside what was measured."""

from collections.abc import Callable

import pandas as pd
from matplotlib.figure import Figure

from analysis.data.cells import compared_memory, comparison_size, of_sizes
from analysis.data.devices import Devices
from analysis.data.store import Store
from analysis.domain import CPU, PUBLISHED, SOURCE_ORDER
from analysis.drawing import style
from analysis.drawing.rates import RATE, fastest, with_rates
from analysis.drawing.rows import dots, key
from analysis.drawing.svg import INK, label

# The swept kernels of source V, their published tables and block sizes.
_SWEPT = {
    "block": ("table5", (1, 2, 4, 8, 16, 32)),
    "block_unroll4": ("table6", (4, 8, 16, 32)),
}
_GAIN = ("gain", "gain_low", "gain_high")
_PRINTED = "published, GTX 770"
# What the source's text says of its own Figure 2, in GFLOP/s.
_MOST_CARDS = (100, 300)


def gain_block(store: Store, devices: Devices) -> Figure | None:
    """Draw the gain over the naive kernel by block size, copies included: published and measured.

    At the source's matrix size, a panel for each of its swept kernels.
    """
    cards = list(devices.gpus[: style.MOST_COLOURS])
    looks = style.card_looks([gpu.label for gpu in cards])
    found = {name: _printed_gains(store, name) for name in _SWEPT}
    figure, axes = style.panels(len(_SWEPT), height=3.0)
    for axis, (name, printed) in zip(axes, found.items(), strict=True):
        if len(printed):
            look = style.Look(INK, "X", ":")
            style.points(axis, printed, "block_size", _GAIN, look, _PRINTED, tell=style.times)
        for gpu in cards:
            rows = _measured_gains(store, gpu.label, name)
            if len(rows):
                look = looks[gpu.label]
                style.points(axis, rows, "block_size", _GAIN, look, gpu.short, tell=style.gain)
        axis.set_title(name)
        axis.set_xlabel("block size B (logarithmic)")
        style.log_axis(axis, "y")
        style.ticks_at(axis, _SWEPT[name][1])
    style.same_y(axes)
    axes[0].set_ylabel("gain over naive (logarithmic)")
    style.legend(figure, axes, columns=4)
    return figure


def _printed_gains(store: Store, name: str) -> pd.DataFrame:
    """Return a kernel's published gains at the source's matrix size: block_size, gain, bounds."""
    table, blocks = _SWEPT[name]
    frame = store[table]
    row = frame[(frame["source"] == PUBLISHED) & (frame["n"] == SOURCE_ORDER)]
    gains = [{"block_size": b, "gain": g} for b in blocks for g in row[f"{name}_{b}_gain"]]
    rows = pd.DataFrame(gains, columns=["block_size", *_GAIN]).astype(float)
    return rows[rows["gain"].notna()]


def _measured_gains(store: Store, label_of: str, name: str) -> pd.DataFrame:
    frame = store["gains"]
    own = frame[(frame["source"] == label_of) & (frame["n"] == SOURCE_ORDER)]
    own = own[(own["variant"] == name) & own["total_gain"].notna()]
    own = own[own["host_memory"] == compared_memory(own)]
    names = {f"total_{column}": column for column in _GAIN}
    return own.rename(columns=names).sort_values("block_size")


def figure2(store: Store, devices: Devices) -> Figure | None:
    """Draw the source's Figure 2: the fastest of its kernels at its matrix size, on each card."""
    cells = of_sizes(store["summary"])
    cells = cells[(cells["device"] != CPU) & cells["variant"].isin(style.SOURCE_V)]
    titles = {gpu.label: gpu.short for gpu in devices.gpus[: 3 * style.MOST_COLOURS]}
    cells = cells[cells["gpu"].isin(titles)]
    if cells.empty:
        return None
    n = comparison_size(cells)
    cells = cells[cells["n"] == n]
    places = {gpu: place for place, gpu in enumerate(reversed(list(titles)), start=1)}
    figure, (axis,) = style.new_figure(width=8.0, height=1.5 + 0.26 * len(titles))
    axis.axvspan(*_MOST_CARDS, color=style.GREY, alpha=0.25, lw=0, label="text, most cards")
    series = {
        "kernel alone": (with_rates(cells, "kernel"), style.Look(style.ORANGE, "D", "-")),
        "pinned memory": (_totals(cells, "pinned"), style.Look(style.BLUE, "s", "-")),
        "pageable memory": (_totals(cells, "pageable"), style.Look(style.GREEN, "o", "-")),
    }
    for text, (rows, look) in series.items():
        best = fastest(rows, "gpu")
        names = [f"{text}, {name}" for name in style.cell_names(best)]
        dots(axis, best, RATE, list(best["gpu"].map(places)), look, names, tell=style.gflops)
        key(axis, look, text)
    printed = _printed_rate(store, n)
    if printed:
        axis.scatter([printed], [0], marker="x", s=34, color=INK, label=_PRINTED)
    axis.set_yticks([0, *places.values()], ["GTX 770", *(label(titles[gpu]) for gpu in places)])
    axis.set_ylim(-0.6, len(titles) + 0.6)
    axis.set_xlabel(f"rate of the fastest kernel at N = {style.plain_number(n)} in GFLOP/s (log)")
    style.log_axis(axis, "x")
    style.legend(figure, [axis], columns=5)
    return figure


def _totals(cells: pd.DataFrame, memory: str) -> pd.DataFrame:
    return with_rates(cells[cells["host_memory"] == memory], "total")


def _printed_rate(store: Store, n: int) -> float | None:
    """Return the best published rate at a matrix size in GFLOP/s."""
    cells = store["audit_cells"]
    own = cells[(cells["n"] == n) & cells["implementation"].str.startswith("gpu_")]
    return float(2e-9 * n**3 / own["time_s"].min()) if len(own) else None


FIGURES: dict[str, Callable[[Store, Devices], Figure | None]] = {
    "gain-block": gain_block,
    "figure2": figure2,
}
