"""Drawings of steps, ceilings and shapes; each function draws one figure from data frames.

Frames have the columns of the CSV tables; rates are in FLOP/s there and in GFLOP/s in the figures.
"""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from analysis import style
from analysis.plots import MEANING, legend, with_rates
from analysis.roofs import draw_peak, draw_roofs
from analysis.svg import INK, label
from kernels.shape import Shape

_RATE = ("rate", "rate_low", "rate_high")
# Ceilings of bandwidth, from the slowest memory: text and line.
ROOFS = {
    "device_copy_bytes_per_s": ("device memory", "-"),
    "l2_bytes_per_s": ("second-level cache", "--"),
    "l1_bytes_per_s": ("first-level cache", ":"),
}


def steps(rows: pd.DataFrame, n: int) -> Figure:
    """Draw the kernel's rate of every step as a bar, with its gain over the step before.

    `rows` are in the order of the steps: variant, rate, rate_low, rate_high in GFLOP/s, and text,
    what stands beside the bar.
    """
    figure, (axis,) = style.new_figure(width=7.2, height=1.2 + 0.32 * len(rows))
    looks = style.looks((False, name) for name in rows["variant"])
    for place, row in enumerate(rows.itertuples()):
        axis.barh(place, row.rate, 0.7, color=looks[(False, row.variant)].colour, linewidth=0)
        reach = row.rate
        if np.isfinite([row.rate_low, row.rate_high]).all():
            axis.hlines(place, row.rate_low, row.rate_high, color=INK, linewidth=2)
            reach = row.rate_high
        axis.annotate(
            row.text,
            (reach, place),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
        )
    axis.set_yticks(range(len(rows)), [label(name) for name in rows["variant"]])
    axis.invert_yaxis()
    axis.margins(x=0.2)
    axis.set_xlim(0, None)
    axis.grid(visible=False, axis="y")
    axis.set_xlabel(f"rate of the kernel at N = {style.plain_number(n)} in GFLOP/s")
    return figure


def roofline(rows: pd.DataFrame, ceilings: dict[str, float]) -> Figure:
    """Draw the kernels below the ceilings of their card.

    `rows` have variant, flop_per_byte_of_sectors, rate, rate_low and rate_high in GFLOP/s;
    `ceilings` are those of ceilings.csv by quantity, of which each may be missing.
    """
    figure, (axis,) = style.new_figure(width=7.2, height=5.6)
    looks = style.looks((False, name) for name in rows["variant"])
    intensity = rows["flop_per_byte_of_sectors"].to_numpy(dtype=float)
    peak = ceilings.get("fp32_flop_per_s", np.nan)
    span = np.geomspace(intensity.min() / 2, intensity.max() * 4, 200)
    if np.isfinite(peak):
        draw_peak(axis, peak, span[0])
    known = [(*ROOFS[name], ceilings[name]) for name in ROOFS if name in ceilings]
    draw_roofs(axis, span, known, peak)
    for row in rows.itertuples():
        look = looks[(False, row.variant)]
        own = pd.DataFrame([row._asdict()])
        style.points(axis, own, "flop_per_byte_of_sectors", _RATE, look, label(row.variant), False)
    axis.set_xlabel("flop a byte of sectors (logarithmic)")
    axis.set_ylabel("rate of the kernel in GFLOP/s (logarithmic)")
    style.log_axis(axis, "x")
    style.log_axis(axis, "y")
    legend(figure, axis, below=True)
    return figure


def shapes(cells: pd.DataFrame, quantity: str) -> Figure:
    """Draw the rates of products of other shapes, one panel for each type of elements.

    `cells` are rows of summary.csv of one card and one kind of host memory.
    """
    rows = with_rates(cells, quantity)
    edges = zip(*(rows[edge].astype(int) for edge in ("batch", "m", "n", "k")), strict=True)
    rows = rows.assign(shape=[Shape(*each) for each in edges])
    found = sorted(set(rows["shape"]), key=lambda shape: (shape.batch, shape.flop))
    places = {shape: place for place, shape in enumerate(found)}
    types = list(dict.fromkeys(rows["dtype"]))
    looks = style.looks((False, name) for name in rows["variant"])
    height = 1.4 + 0.24 * len(places)
    figure, axes = style.new_figure(columns=len(types), height=height)
    for position, (axis, dtype) in enumerate(zip(axes, types, strict=True)):
        for variant in dict.fromkeys(rows["variant"]):
            own = rows[(rows["dtype"] == dtype) & (rows["variant"] == variant)]
            look = looks[(False, variant)]
            axis.scatter([], [], marker=look.marker, color=look.colour, label=label(variant))
            place = own["shape"].map(places)
            axis.hlines(place, own["rate_low"], own["rate_high"], color=look.colour, linewidth=1.6)
            axis.scatter(own["rate"], place, marker=look.marker, color=look.colour, s=26, lw=0)
        axis.set_yticks(
            range(len(found)),
            [str(shape).replace("x", "×") for shape in found] if not position else [],
        )
        axis.set_ylim(-0.6, len(found) - 0.4)
        axis.set_title(f"{dtype}, {MEANING[quantity]}")
        axis.set_xlabel("10⁹ operations/s (log)")
        style.log_axis(axis, "x")
    legend(figure, axes[0], below=True)
    return figure
