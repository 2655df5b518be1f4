"""The figures about repeatability: ratios of medians, and variation between sessions."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from analysis.data.devices import Devices
from analysis.data.store import Store
from analysis.drawing import palette, rows, style
from analysis.drawing.palette import Look
from analysis.drawing.style import plain_number
from analysis.drawing.svg import INK, hover
from analysis.stats.sessions import DEVICE_MEMORY, L2, LENGTHS
from analysis.stats.significance import THRESHOLD, within
from analysis.trust.comparison import GPU_KERNEL, ON_CPU, PAGEABLE, PINNED, medians, ratios

# The label and look of each kind of cell and quantity.
_KINDS = {
    (GPU_KERNEL, "kernel"): ("kernel-only", Look(palette.GREEN, "o", "-")),
    (PINNED, "kernel"): ("kernel, pinned memory", Look(palette.BLUE, "o", "-")),
    (PINNED, "total"): ("end-to-end, pinned memory", Look(palette.BLUE, "s", "--")),
    (PAGEABLE, "kernel"): ("kernel, pageable memory", Look(palette.ORANGE, "^", "-")),
    (PAGEABLE, "total"): ("end-to-end, pageable memory", Look(palette.ORANGE, "v", "--")),
    (ON_CPU, "total"): ("CPU", Look(palette.PURPLE, "P", "-.")),
}
_MARKED = (0.05, 0.25, 0.5, 0.75, 0.95)
_LEAST_SPAN = 0.05  # least range of ratios on each side of 1
_OUTER = 0.02  # share of a series allowed beyond each end of the axis
# Rows of the figure of sessions, by their columns of the table.
_TIMES = {
    **{("kernel", "pinned", at): f"kernel-only, data in {at}" for at in (L2, DEVICE_MEMORY)},
    **{
        ("total", memory, length): f"{memory}, {length}"
        for memory in ("pinned", "pageable")
        for length in LENGTHS
    },
}


def agreement(store: Store, devices: Devices) -> Figure | None:
    """Draw the distribution of ratios of medians between recordings of one GPU model.

    The distribution is cumulative. There is one panel per pair of recordings. The band marks the
    tolerance `THRESHOLD`.
    """
    frame = store["agreement"]
    pairs = frame.loc[frame["gpu_a"].notna(), ["recording_a", "gpu_a", "recording_b", "gpu_b"]]
    pairs = pairs.drop_duplicates()
    focus = devices.focus.label if devices.focus else None
    with_focus = (pairs["gpu_a"] == focus) | (pairs["gpu_b"] == focus)
    pairs = pd.concat([pairs[with_focus], pairs[~with_focus]])[: style.MOST_PANELS]
    names = {device.label: device.short for device in devices.all}
    both = ratios(frame, medians(store["summary"]))
    by_row = dict(list(both.groupby("pair")["ratio"]))
    panels = {}
    hosts = set()
    for pair in pairs.itertuples(index=False):
        compared = (frame["gpu_a"] == pair.gpu_a) & (frame["gpu_b"] == pair.gpu_b)
        recordings = (pair.recording_a, pair.recording_b)
        if recordings not in hosts:  # two GPUs of one host share its CPU
            hosts.add(recordings)
            same = (frame["recording_a"] == recordings[0]) & (frame["recording_b"] == recordings[1])
            compared |= same & frame["gpu_a"].isna()
        kinds = frame.loc[compared & frame.index.isin(by_row), ["kind", "quantity"]]
        title = f"{names.get(pair.gpu_b, pair.gpu_b)} / {names.get(pair.gpu_a, pair.gpu_a)}"
        panels[title] = {(kind, each): by_row[row] for row, kind, each in kinds.itertuples()}
    panels = {title: series for title, series in panels.items() if series}
    if not panels:
        return None
    figure, axes = style.panels(len(panels), height=3.2)
    for axis, (title, series) in zip(axes, panels.items(), strict=True):
        axis.axvspan(1 / (1 + THRESHOLD), 1 + THRESHOLD, color=INK, alpha=0.1, linewidth=0)
        axis.axvline(1, color=INK, linewidth=1)
        for key, (text, look) in _KINDS.items():
            if key in series:
                _distribution(axis, series[key], text, look)
        style.title(axis, title)
        axis.set_xlabel("ratio of the medians of a configuration")
    every = [ratios for series in panels.values() for ratios in series.values()]
    low = min(1 - _LEAST_SPAN, *(ratios.quantile(_OUTER) for ratios in every))
    high = max(1 + _LEAST_SPAN, *(ratios.quantile(1 - _OUTER) for ratios in every))
    for axis in axes:
        axis.set_xlim(low, high)
        axis.set_ylim(0, 1)
        axis.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.0f} %"))
    for axis in axes[::2]:
        axis.set_ylabel("configurations with this ratio or less")
    style.legend(figure, axes)
    return figure


def _distribution(axis: Axes, ratios: pd.Series, text: str, look: Look) -> None:
    # At most 40 steps, more are not visible.
    shares = np.linspace(0, 1, min(len(ratios), 40))
    axis.plot(ratios.quantile(shares), shares, look.line, color=look.colour, linewidth=1.3)
    marked = ratios.quantile(list(_MARKED))
    drawn = axis.scatter(marked, _MARKED, s=22, marker=look.marker, color=look.colour, zorder=3)
    share_within = within(ratios, THRESHOLD).mean()
    agreeing = f"{100 * share_within:.0f} % of {len(ratios)} configurations "
    agreeing += f"within {100 * THRESHOLD:g} %"
    hover(
        drawn,
        [
            f"{text}: {100 * share:g} % at {plain_number(round(ratio, 3))} or less; {agreeing}"
            for share, ratio in marked.items()
        ],
    )
    how: dict[str, Any] = {"marker": look.marker, "markersize": 5, "linewidth": 1.3}
    axis.plot([], [], look.line, color=look.colour, label=text, **how)


def sessions(store: Store, devices: Devices) -> Figure | None:
    """Draw for each GPU and kind of time the factor within which a median is known.

    A line extends to the wider factor for the median of a new session.
    """
    frame = store["sessions"]
    frame = frame[~frame["host_work"].astype("boolean").fillna(False)]
    where = frame["matrices_in"].fillna(frame["length"])
    keys = zip(frame["quantity"], frame["host_memory"], where, strict=True)
    frame = frame.assign(kind=[_TIMES.get(key, "") for key in keys])
    frame = frame[frame["kind"] != ""]
    gpus = [gpu for gpu in devices.gpus[: style.MOST_COLOURS] if (frame["gpu"] == gpu.label).any()]
    if not gpus:
        return None
    kinds = [kind for kind in _TIMES.values() if (frame["kind"] == kind).any()]
    looks = style.looks_of(devices)
    figure, (axis,) = style.new_figure(height=1.2 + 0.34 * len(kinds))
    for number, gpu in enumerate(gpus):
        of_gpu = frame[frame["gpu"] == gpu.label]
        of_gpu = of_gpu.assign(low=of_gpu["mean_interval_factor"])
        y = of_gpu["kind"].map(kinds.index) + rows.offset(number, len(gpus))
        names = [f"{gpu.short}, {kind}" for kind in of_gpu["kind"]]
        columns = ("mean_interval_factor", "low", "new_session_interval_factor")
        rows.dots(axis, of_gpu, columns, list(y), looks[gpu.short], names, tell=style.times)
        rows.key(axis, looks[gpu.short], gpu.short)
    rows.name_rows(axis, kinds)
    style.factor_axis(axis, "x")
    axis.set_xlabel("factor within which a median is known")
    style.legend(figure, [axis])
    return figure


FIGURES = style.named(agreement, sessions)
