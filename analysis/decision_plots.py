"""Drawings of copies and of break-even orders; each function draws one figure from data frames."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from analysis import style
from analysis.decide.predictors import Copies
from analysis.plots import legend
from analysis.svg import label

_WAYS = {"h2d": "to the card", "d2h": "back"}
_LINKS = {
    ("h2d", "pinned"): style.Look("#1f7ec2", "o", "-"),
    ("d2h", "pinned"): style.Look("#00966c", "s", "--"),
    ("h2d", "pageable"): style.Look("#d55e00", "^", "-"),
    ("d2h", "pageable"): style.Look("#c2609a", "v", "--"),
}
_SIDES = {
    "pinned": style.Look("#1f7ec2", "o", "-"),
    "pageable": style.Look("#d55e00", "^", "-"),
    "naive": style.Look(style.GREY, "X", ":"),
    "own": style.Look("#b0673a", "s", "--"),
    "own_all": style.Look("#9a8400", "D", "--"),
    "blas": style.Look("#8a6fd1", "P", "-."),
    "blas_all": style.Look("#00966c", "v", "-."),
}


def copies(points: pd.DataFrame, fits: pd.DataFrame) -> Figure:
    """Draw what copies of passes reach over their bytes, and the model's curves; a panel a card.

    `points` are rows of transfer_points.csv, `fits` those of transfers.csv that are used, with
    `gpu` as shown.
    """
    cards = list(dict.fromkeys(points["gpu"]))
    rows = -(-len(cards) // 2)
    figure, axes = style.new_figure(columns=min(len(cards), 2), rows=rows, height=0.8 + 3.0 * rows)
    for unused in axes[len(cards) :]:
        unused.remove()
    for axis, card in zip(axes, cards, strict=False):
        own = points[points["gpu"] == card]
        for (way, memory), look in _LINKS.items():
            group = own[(own["direction"] == way) & (own["host_memory"] == memory)]
            if group.empty:
                continue
            held = group["holdout"].astype(bool).to_numpy()
            size = group["size_bytes"].to_numpy(dtype=float)
            rate = size / group["copy_s"].to_numpy(dtype=float) / 1e9
            marks: dict[str, Any] = {"marker": look.marker, "s": 22, "zorder": 3}
            axis.scatter(size[~held], rate[~held], color=look.colour, linewidths=0, **marks)
            axis.scatter(size[held], rate[held], fc="none", ec=look.colour, **marks)
            span = np.geomspace(size.min(), size.max(), 80)
            fitted = fits[(fits["gpu"] == card) & (fits["direction"] == way)]
            for fit in fitted[fitted["host_memory"] == memory].itertuples():
                time_s = _model(fit).time_s(int(group["copies"].iloc[0]), span)
                axis.plot(span, span / time_s / 1e9, look.line, color=look.colour, lw=1.2)
            text = f"{memory}, {_WAYS[way]}"
            axis.plot([], [], look.line, color=look.colour, marker=look.marker, label=text)
        axis.set_title(label(card))
        axis.set_xlabel("bytes of a pass, this way (logarithmic)")
        axis.set_ylabel("GB/s (logarithmic)")
        axis.set_xscale("log", base=2)
        ticks = sorted(set(own["size_bytes"].astype(float)))
        ticks = [size for size in ticks if np.log2(size) % 2 == 0]
        axis.set_xticks(ticks, [style.binary_size(size) for size in ticks])
        axis.xaxis.set_minor_locator(NullLocator())
        style.log_axis(axis, "y")
    legend(figure, axes[0], below=True)
    return figure


def _model(fit: Any) -> Copies:
    knee = np.inf if pd.isna(fit.knee_bytes) else fit.knee_bytes
    beyond = np.inf if pd.isna(fit.beyond_bytes_per_s) else fit.beyond_bytes_per_s
    return Copies(fit.latency_s, fit.bytes_per_s, knee, beyond)


def break_even(
    gpu: pd.DataFrame, cpu: pd.DataFrame, crossings: pd.DataFrame, names: dict[str, str]
) -> Figure:
    """Draw the least total over N on the card and on its CPU, and where they cross.

    `gpu` has host_memory, n, total_s, total_low_s, total_high_s; `cpu` (rows of curves.csv)
    opponent, n, time_s, time_low_s, time_high_s; `crossings` are rows of break_even.csv that are
    between measured orders; `names` are those of the opponents.
    """
    figure, (axis,) = style.new_figure(width=7.2, height=4.4)
    for memory, own in gpu.groupby("host_memory", sort=True):
        columns = ("total_s", "total_low_s", "total_high_s")
        text = f"GPU, {memory} memory"
        style.points(axis, own.sort_values("n"), "n", columns, _SIDES[str(memory)], text)
    for opponent, own in cpu.groupby("opponent", sort=False):
        if opponent in _SIDES:
            columns = ("time_s", "time_low_s", "time_high_s")
            style.points(axis, own, "n", columns, _SIDES[str(opponent)], f"CPU, {names[opponent]}")
    axis.set_xlabel("matrix order N (logarithmic)")
    axis.set_ylabel("time, copies included, in s (logarithmic)")
    style.log_axis(axis, "y")
    style.ticks_at(axis, (int(n) for n in {*gpu["n"], *cpu["n"]}))
    bottom = axis.get_ylim()[0]
    for crossing in crossings.itertuples():
        look = _SIDES[crossing.host_memory]
        axis.axvline(crossing.n, color=look.colour, linewidth=0.9, linestyle=":", zorder=1)
        axis.scatter([crossing.n], [bottom], marker=6, color=look.colour, zorder=4, clip_on=False)
    legend(figure, axis, below=True)
    return figure
