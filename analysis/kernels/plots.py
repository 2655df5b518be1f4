"""Drawings of kernels; each function draws one figure from data frames and knows no file."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.drawing import palette, style
from analysis.drawing.rates import RATE
from analysis.drawing.svg import INK, hover, label
from kernels.products.shape import Shape

# Memories whose bandwidth bounds a kernel: quantity of ceilings.csv, name, line.
_ROOFS = {
    "device_copy_bytes_per_s": ("device memory", "-"),
    "l2_bytes_per_s": ("L2 cache", "--"),
    "l1_bytes_per_s": ("L1 cache", ":"),
}


def ladder(cards: Mapping[str, pd.DataFrame], peak: float) -> Figure:
    """Draw the rate of every kernel as a bar of the first GPU, and as points of the others.

    `GPUs` are rows of ladder_summary.csv by title, with rates in TFLOP/s; `peak` is the first GPU's
    measured rate of FMAs, NaN where that is not known.
    """
    (first, rows), *others = cards.items()
    places = {variant: place for place, variant in enumerate(rows["variant"])}
    figure, (axis,) = style.new_figure(width=8.0, height=0.9 + 0.22 * len(rows))
    looks = palette.gpu_looks(cards)
    bars = axis.barh(list(places.values()), rows["rate"], 0.62, color=looks[first].colour)
    for bar, row in zip(bars, rows.itertuples(), strict=True):
        said = style.tooltip(
            f"{row.variant}, {first}", row.rate, row.rate_low, row.rate_high, _tera
        )
        hover(bar, [said])
    for row in rows.itertuples():
        how: dict[str, Any] = {
            "xytext": (5, 0),
            "textcoords": "offset points",
            "va": "center",
            "fontsize": 8,
        }
        axis.annotate(f"{row.rate:.3g}", (row.rate, places[row.variant]), **how)
    axis.plot([], [], "s", color=looks[first].colour, label=label(first))
    for title, own in others:
        own = own[own["variant"].isin(places)]
        at = own["variant"].map(places) + 0.38
        look = looks[title]
        drawn = axis.scatter(own["rate"], at, marker=look.marker, s=14, color=look.colour, lw=0)
        names = [f"{variant}, {title}" for variant in own["variant"]]
        hover(
            drawn,
            [
                style.tooltip(name, rate[0], rate[1], rate[2], _tera)
                for name, rate in zip(names, own[list(RATE)].to_numpy(float), strict=True)
            ],
        )
        axis.plot([], [], look.marker, color=look.colour, label=label(title))
    if np.isfinite(peak):
        axis.axvline(peak, color=INK, linewidth=1.1, linestyle="--", label="FMA throughput")
    axis.set_yticks(list(places.values()), [label(name) for name in places])
    axis.invert_yaxis()
    axis.margins(x=0.08)
    axis.set_xlim(0, None)
    axis.grid(visible=False, axis="y")
    axis.set_xlabel("kernel-only throughput in TFLOP/s")
    style.legend(figure, [axis], columns=3)
    return figure


def _tera(value: float) -> str:
    return f"{style.rounded(value)} TFLOP/s"


def rates(panels: Mapping[str, pd.DataFrame], x: str, name: str) -> Figure:
    """Draw rates of kernels over the column `x`, called `name`, a panel for each GPU."""
    shown = pd.concat(panels.values())
    looks = palette.looks((False, variant) for variant in shown["variant"].unique())
    known = [key for key in looks if key[1] in set(shown["variant"]) and not key[0]]
    figure, axes = style.panels(len(panels), height=2.9)
    for axis, (title, rows) in zip(axes, panels.items(), strict=True):
        for key in known:
            own = rows[rows["variant"] == key[1]].sort_values(x)
            if len(own):
                style.points(axis, own, x, RATE, looks[key], key[1], tell=style.gflops)
        axis.set_title(label(title))
        axis.set_xlabel(f"{name} (logarithmic)")
        style.log_axis(axis, "y")
        style.ticks_at(axis, (int(value) for value in shown[x]))
    style.same_y(axes)
    for axis in axes[:: 2 if len(axes) > 1 else 1]:
        axis.set_ylabel("throughput in GFLOP/s (logarithmic)")
    style.legend(figure, axes, columns=4)
    return figure


def split(cells: pd.DataFrame) -> Figure:
    """Draw the parts of the total time as shares over N, one panel for each host memory kind.

    `cells` are the rows of one variant and block size, with all parts measured.
    """
    kinds = [kind for kind in ("pinned", "pageable") if (cells["host_memory"] == kind).any()]
    parts = {part: how for part, how in palette.PARTS.items() if (cells[part] > 0).any()}
    figure, axes = style.panels(len(kinds), height=2.9)
    for axis, kind in zip(axes, kinds, strict=True):
        rows = cells[cells["host_memory"] == kind].sort_values("n")
        whole = rows[list(palette.PARTS)].sum(axis=1).to_numpy(dtype=float)
        bottom = np.zeros(len(rows))
        for part, (text, colour, hatch) in parts.items():
            share = 100 * rows[part].to_numpy(dtype=float) / whole
            parts_look: dict[str, Any] = {
                "label": text,
                "color": colour,
                "hatch": hatch,
                "linewidth": 0,
            }
            bars = axis.bar(range(len(rows)), share, 0.7, bottom, **parts_look)
            for bar, n, percent, time_s in zip(bars, rows["n"], share, rows[part], strict=True):
                said = f"{text}, N = {style.plain_number(n)}: {percent:.3g} %, "
                hover(bar, [said + style.seconds(time_s)])
            bottom += share
        for place, total in enumerate(rows["total_s"]):
            how: dict[str, Any] = {"ha": "center", "va": "bottom", "fontsize": 8}
            axis.text(place, 101, style.plain_time(float(f"{total:.2g}")), **how)
        axis.set_xticks(range(len(rows)), [style.plain_number(n) for n in rows["n"]])
        axis.set_title(f"{kind} memory")
        axis.set_xlabel("matrix size N")
        axis.set_ylim(0, 108)
        axis.grid(visible=False, axis="x")
    axes[0].set_ylabel("share of the end-to-end time in %")
    style.legend(figure, axes, columns=4)
    return figure


def roofline(rows: pd.DataFrame, ceilings: Mapping[str, float]) -> Figure:
    """Draw the kernels below the ceilings of their GPU.

    `rows` have variant, flop_per_byte_of_sectors and rates in GFLOP/s; `ceilings` are those of
    ceilings.csv by quantity, of which each may be missing.
    """
    figure, (axis,) = style.new_figure(width=8.0, height=4.4)
    looks = palette.looks((False, name) for name in rows["variant"])
    intensity = rows["flop_per_byte_of_sectors"].to_numpy(dtype=float)
    peak = ceilings.get("fp32_flop_per_s", np.nan)
    span = np.geomspace(intensity.min() / 2, intensity.max() * 4, 200)
    _draw_ceilings(axis, span, ceilings, peak)
    for variant, own in rows.groupby("variant", sort=False):
        style.points(
            axis,
            own,
            "flop_per_byte_of_sectors",
            RATE,
            looks[(False, str(variant))],
            str(variant),
            line=False,
            tell=style.gflops,
        )
    axis.set_xlabel("FLOP per byte of global-memory sectors (logarithmic)")
    axis.set_ylabel("throughput in GFLOP/s (logarithmic)")
    style.log_axis(axis, "x")
    style.log_axis(axis, "y")
    style.legend(figure, [axis])
    return figure


def _draw_ceilings(
    axis: Axes, span: np.ndarray, ceilings: Mapping[str, float], peak: float
) -> None:
    """Draw the rate that each memory allows at these intensities, up to that of FMAs."""
    if np.isfinite(peak):
        axis.axhline(peak / 1e9, color=INK, linewidth=1.2)
        how: dict[str, Any] = {"xytext": (0, 3), "textcoords": "offset points", "fontsize": 8}
        axis.annotate("FMA throughput", (span[0], peak / 1e9), **how)
    for quantity, (text, line) in _ROOFS.items():
        if quantity in ceilings:
            rate = np.fmin(span * ceilings[quantity], peak) / 1e9
            axis.plot(span, rate, line, color=INK, linewidth=1.1, label=text)


def shapes(rows: pd.DataFrame) -> Figure:
    """Draw rates of products of other shapes, one panel for each type of elements."""
    edges = zip(*(rows[edge].astype(int) for edge in ("batch", "m", "n", "k")), strict=True)
    rows = rows.assign(shape=[Shape(*each) for each in edges])
    found = sorted(set(rows["shape"]), key=lambda shape: (shape.batch, shape.flop))
    places = {shape: place for place, shape in enumerate(found)}
    types = list(dict.fromkeys(rows["dtype"]))
    looks = palette.looks((False, name) for name in rows["variant"])
    figure, axes = style.panels(len(types), columns=3, height=0.8 + 0.24 * len(places))
    for position, (axis, dtype) in enumerate(zip(axes, types, strict=True)):
        for variant, own in rows[rows["dtype"] == dtype].groupby("variant", sort=False):
            look = looks[(False, str(variant))]
            at = own["shape"].map(places)
            axis.hlines(at, own["rate_low"], own["rate_high"], color=look.colour, linewidth=1.6)
            marks: dict[str, Any] = {"marker": look.marker, "color": look.colour, "s": 26, "lw": 0}
            drawn = axis.scatter(own["rate"], at, label=label(variant), **marks)
            values = own[list(RATE)].to_numpy(float)
            names = [f"{variant}, {shape}" for shape in own["shape"]]
            pairs = zip(names, values, strict=True)
            hover(
                drawn,
                [
                    style.tooltip(name, rate[0], rate[1], rate[2], style.gflops)
                    for name, rate in pairs
                ],
            )
        texts = [str(shape).replace("x", "×") for shape in found]
        axis.set_yticks(range(len(found)), texts if not position else [""] * len(found))
        axis.set_ylim(-0.6, len(found) - 0.4)
        axis.set_title(str(dtype))
        axis.set_xlabel("10⁹ operations/s (log)")
        style.log_axis(axis, "x")
    style.legend(figure, axes, columns=4)
    return figure
