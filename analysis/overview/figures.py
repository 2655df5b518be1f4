"""The figures of the overview: one product on GPU and CPU, and a comparison of GPUs."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from analysis.data.best import fastest
from analysis.data.cells import of_sizes
from analysis.data.devices import Device, Devices
from analysis.data.store import Store
from analysis.domain import CPU, HOST_MEMORY_ORDER
from analysis.drawing import palette, style
from analysis.drawing.svg import INK, label
from analysis.stats.significance import THRESHOLD

_TIME = ("total_s", "total_low_s", "total_high_s")
_RATIO = ("ratio", "ratio_low", "ratio_high")
_NAMED = ("variant", "n", "over_floor")
_CPU_ONE = palette.Look(palette.PURPLE, "<", "--")
_CPU_ALL = palette.Look(INK, "^", "--")
_CPU_NAIVE = palette.Look(palette.GREY, "v", "--")

# The panels of the comparison of GPUs: quantity, host memory, title.
_COMPARED = (
    ("total", "pinned", "pinned memory, copies included"),
    ("total", "pageable", "pageable memory, copies included"),
    ("kernel", "pinned", "kernel-only"),
)


@dataclass(frozen=True)
class _Line:
    """A line of the headline figure: the text at its end, its look, and rows of summary.csv."""

    text: str
    look: palette.Look
    rows: pd.DataFrame


def headline(store: Store, devices: Devices) -> Figure | None:
    """Draw the time of one product over N on the device in focus and on the CPU of its host.

    GPU: the fastest implementation for each kind of host memory. CPU: the naive loop, and the
    fastest on one core and on all. An arrow shows the speedup over the CPU from speedups.csv.
    """
    if devices.focus is None:
        return None
    lines = list(_lines(of_sizes(store["summary"]), devices.focus))
    if not lines:
        return None
    figure, (axis,) = style.new_figure(width=10.0, height=3.4)
    for line in lines:
        rows = line.rows
        names = [
            f"{line.text}, {variant}, N = {style.plain_number(n)}"
            + ("" if pd.isna(over) else f", {over:.2f}× the copies without the product")
            for variant, n, over in zip(*(rows[name] for name in _NAMED), strict=True)
        ]
        style.points(axis, rows, "n", _TIME, line.look, names=names, tell=style.seconds)
    axis.set_xlabel("matrix size N")
    axis.set_ylabel("time of one product")
    style.log_axis(axis, "y")
    axis.yaxis.set_major_formatter(FuncFormatter(style.plain_time))
    style.ticks_at(axis, (int(n) for line in lines for n in line.rows["n"]))
    _mark_speedup(axis, store["speedups"], devices.focus, lines)
    ends = [
        {"x": row["n"], "y": row["total_s"], "text": line.text, "colour": INK}
        for line in lines
        for row in [line.rows.iloc[-1]]
    ]
    style.name_ends(figure, axis, pd.DataFrame(ends), 10)
    return figure


def _lines(cells: pd.DataFrame, device: Device) -> Iterator[_Line]:
    on_cpu = cells["device"] == CPU
    cpu = cells[on_cpu & (cells["recording"] == device.recording)]
    gpu = cells[~on_cpu & (cells["gpu"] == device.label).fillna(False)]
    shared = (cpu["threads"] > 1).fillna(False)
    groups = {
        "CPU, naive loop": (_CPU_NAIVE, cpu[(cpu["variant"] == "naive") & ~shared]),
        "CPU, one core": (_CPU_ONE, cpu[~shared]),
        "CPU, several cores": (_CPU_ALL, cpu[shared]),
    }
    for memory in HOST_MEMORY_ORDER:
        groups[f"GPU, {memory} memory"] = palette.MEMORY[memory], gpu[gpu["host_memory"] == memory]
    for text, (look, rows) in groups.items():
        if not rows.empty:
            yield _Line(text, look, fastest(rows, "total_s", ["n"]))


def _mark_speedup(axis: Axes, speedups: pd.DataFrame, device: Device, lines: list[_Line]) -> None:
    answer = speedups[(speedups["source"] == device.label) & speedups["is_answer"].fillna(False)]
    if answer.empty:
        return
    n = int(answer["n"].iloc[0])
    rows = pd.concat([line.rows for line in lines])
    rows = rows[rows["n"] == n]
    sides = fastest(rows.assign(on_cpu=rows["device"] == CPU), "total_s", ["on_cpu"])
    ends = sides["total_s"].sort_values()
    arrow: dict[str, Any] = {"arrowstyle": "<->", "color": INK, "shrinkA": 5, "shrinkB": 5}
    axis.annotate("", (n, ends.iloc[0]), (n, ends.iloc[-1]), arrowprops=arrow)
    speedup, low = answer.iloc[0][["speedup", "speedup_low"]]
    text = style.about(speedup) if pd.isna(low) else style.times(speedup, 3)
    how: dict[str, Any] = {"ha": "center", "va": "top", "fontsize": 11, "weight": "bold"}
    style.note(axis, text, (n, ends.iloc[0]), (0, -8), **how)
    low_s, high_s = axis.get_ylim()
    if (room := ends.iloc[0] / (high_s / low_s) ** 0.15) < low_s:  # the text fits below the arrow
        axis.set_ylim(bottom=room)


def gpus(store: Store, devices: Devices) -> Figure | None:
    """Draw the time of the fastest implementation on each GPU, relative to the first GPU, by size.

    There is one panel per kind of host memory, copies included, and one kernel-only. Up to
    `style.MOST_COLOURS` GPUs are drawn. The band shows the tolerance `THRESHOLD`.
    """
    titles = {gpu.label: gpu.short for gpu in devices.gpus}
    frame = store["gpu_comparison"]
    frame = frame[frame["ratio"].notna() & frame["gpu"].isin(titles)]
    shown = list(frame["gpu"].unique())[: style.MOST_COLOURS]
    frame = frame[frame["gpu"].isin(shown)]
    drawn = [
        (title, rows)
        for quantity, memory, title in _COMPARED
        if len(rows := frame[(frame["quantity"] == quantity) & (frame["host_memory"] == memory)])
    ]
    if not drawn:
        return None
    first = titles.get(frame["first"].iloc[0], frame["first"].iloc[0])
    looks = style.looks_of(devices, "label")
    figure, axes = style.panels(len(drawn), columns=3, width=9.0, height=2.9)
    for axis, (title, rows) in zip(axes, drawn, strict=True):
        band: dict[str, Any] = {"color": palette.GREY, "alpha": 0.25, "linewidth": 0}
        axis.axhspan(1 / (1 + THRESHOLD), 1 + THRESHOLD, **band)
        for gpu, curve in rows.groupby("gpu", sort=False):
            curve = curve.sort_values("n")
            names = [f"{label(titles[gpu])}, N = {style.plain_number(n)}" for n in curve["n"]]
            tell = style.times
            style.points(axis, curve, "n", _RATIO, looks[gpu], titles[gpu], names=names, tell=tell)
        style.title(axis, title)
        axis.set_xlabel("matrix size N")
        style.ticks_at(axis, (int(n) for n in rows["n"]))
    ratios = frame.loc[frame["ratio"] > 0, "ratio"]
    if ratios.max() / ratios.min() > 3:
        for axis in axes:
            style.log_axis(axis, "y")
    style.same_y(axes)
    axes[0].set_ylabel(f"time relative to\n{label(first)}")
    style.legend(figure, axes)
    return figure


FIGURES = style.named(headline, gpus)
