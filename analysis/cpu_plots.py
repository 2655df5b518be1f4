"""Drawings of the CPU's side; each function draws one figure from data frames and knows no file.

Frames have the columns of the CSV tables; rates are in FLOP/s there and in GFLOP/s in the figures.
Ceilings are medians in SI units by quantity and number of threads, of which each may be missing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import style
from analysis.cpu.roofline import AT_MOST
from analysis.plots import TOTAL, best_blocks, legend, on_threads, with_rates
from analysis.roofs import Roof, draw_peak, draw_roofs
from analysis.svg import INK, label

Ceilings = Mapping[tuple[str, int], float]
PEAK = "fp32_flop_per_s"
_RATE = ("rate", "rate_low", "rate_high")
# Ceilings of bandwidth past the first-level cache, from the slowest: text and line.
_ROOFS = {
    "memory_bytes_per_s": ("memory", "-"),
    "l3_bytes_per_s": ("third-level cache", "--"),
    "l2_bytes_per_s": ("second-level cache", ":"),
}
# The panels of a roofline: column, what it is, and its roofs.
_PANELS: tuple[tuple[str, str, dict[str, tuple[str, str]]], ...] = (
    (
        "flop_per_byte_asked",
        "flop a byte asked of L1",
        {"l1_bytes_per_s": ("first-level cache", ":")},
    ),
    ("flop_per_byte_past_l1", "flop a byte fetched past L1", _ROOFS),
)


def rates(cells: pd.DataFrame, ceilings: Ceilings) -> Figure:
    """Draw the rate over N of every variant with its best block size, below the multiply-adds.

    `cells` are the rows of summary.csv of one CPU; there is a panel for each number of threads.
    """
    rows = with_rates(cells, TOTAL)
    counts = sorted(set(rows["threads"]))
    looks = style.looks((True, name) for name in rows["variant"])
    figure, axes = style.new_figure(columns=len(counts), height=4.0)
    variants = [name for is_cpu, name in looks if is_cpu and name in set(rows["variant"])]
    for axis, threads in zip(axes, counts, strict=True):
        best = best_blocks(rows[rows["threads"] == threads], ["variant", "n"])
        for name in variants:
            own = best[best["variant"] == name].sort_values("n")
            look = replace(looks[True, name], line="-")
            if not own.empty:
                style.points(axis, own, "n", _RATE, look)
        if (PEAK, threads) in ceilings:
            draw_peak(axis, ceilings[PEAK, threads], min(rows["n"]))
        axis.set_title(on_threads(threads))
        axis.set_xlabel("matrix order N (logarithmic)")
        style.ticks_at(axis, (int(n) for n in rows["n"]))
    for name in variants:
        look = looks[True, name]
        axes[0].plot([], [], "-", color=look.colour, marker=look.marker, label=label(name))
    _one_scale(axes)
    axes[0].set_ylabel("rate in GFLOP/s (logarithmic)")
    legend(figure, axes[0])
    return figure


def blocks(cells: pd.DataFrame, caches: Sequence[tuple[int, int]]) -> Figure:
    """Draw the rate of `blocked` over the block size, one line an order, and the caches' sizes.

    `caches` are (level, bytes). A band begins where three blocks fill the cache, 12·B² bytes, and
    ends where one does.
    """
    rows = with_rates(cells, TOTAL)
    looks = style.size_looks(rows["n"])
    figure, (axis,) = style.new_figure(width=7.2, height=4.2)
    for n, own in rows.groupby("n"):
        text = f"N = {style.plain_number(n)}"
        style.points(axis, own.sort_values("block_size"), "block_size", _RATE, looks[n], text)
    axis.set_ylim(0, None)
    style.ticks_at(axis, (int(size) for size in rows["block_size"]))
    low, high = axis.get_xlim()
    for level, size_bytes in caches:
        three, one = edges(size_bytes)
        if three < high:
            axis.axvspan(three, min(one, high), color=INK, alpha=0.08, linewidth=0)
            axis.axvline(three, color=INK, linewidth=1, linestyle="--")
            text = f"L{level}, {style.binary_size(size_bytes)}"
            place = (max(three, low), 1.0)
            axis.annotate(
                text,
                place,
                xycoords=("data", "axes fraction"),
                xytext=(2, 3),
                textcoords="offset points",
                fontsize=8,
            )
    axis.set_xlim(low, high)
    axis.set_xlabel("block size B (logarithmic)")
    axis.set_ylabel("rate in GFLOP/s")
    legend(figure, axis)
    return figure


def edges(cache_bytes: int) -> tuple[float, float]:
    """Return the block sizes at which three float32 blocks fill a cache, and at which one does."""
    return float(np.sqrt(cache_bytes / 12)), float(np.sqrt(cache_bytes / 4))


def roofline(rows: pd.DataFrame, ceilings: Ceilings) -> Figure:
    """Draw the CPU variants below the ceilings of their host.

    `rows` are those of cpu_roofline.csv with rate, rate_low and rate_high in GFLOP/s. On the left
    stand the flop a byte that the loops ask of the first-level cache, on the right those a byte
    that is fetched past it. A mark with an arrow has as many at most.
    """
    figure, axes = style.new_figure(columns=2, height=4.8)
    looks = style.looks((True, name) for name in rows["variant"])
    for axis, (column, text, roofs) in zip(axes, _PANELS, strict=True):
        intensity = rows[column].to_numpy(dtype=float)
        span = np.geomspace(np.nanmin(intensity) / 2, np.nanmax(intensity) * 2, 200)
        for threads in sorted(set(rows["threads"])):
            peak = ceilings.get((PEAK, threads), np.nan)
            if np.isfinite(peak):
                draw_peak(axis, peak, span[0], f"multiply-adds, {on_threads(threads)}")
            draw_roofs(axis, span, _known_roofs(roofs, ceilings, threads), peak)
        for row in rows.to_dict("records"):
            _roofline_point(axis, row, column, looks[True, str(row["variant"])])
        axis.set_xlabel(f"{text} (logarithmic)")
        style.log_axis(axis, "x")
    _one_scale(axes)
    axes[0].set_ylabel("rate in GFLOP/s (logarithmic)")
    _legend_of_all(figure, axes)
    return figure


def _known_roofs(
    roofs: Mapping[str, tuple[str, str]], ceilings: Ceilings, threads: int
) -> list[Roof]:
    """Return the roofs that were measured on so many threads; of several they are dash-dotted."""
    several = threads > 1
    return [
        (
            f"{text}, {on_threads(threads)}" if several else text,
            "-." if several else line,
            ceilings[quantity, threads],
        )
        for quantity, (text, line) in roofs.items()
        if (quantity, threads) in ceilings
    ]


def _roofline_point(axis: Axes, row: Mapping[str, Any], column: str, look: style.Look) -> None:
    """Draw one variant; that on several threads has a rim, one whose intensity is a bound a tail.

    It points to where the true intensity is.
    """
    intensity, threads = float(row[column]), int(row["threads"])
    if not np.isfinite(intensity):
        return
    text = label(row["variant"] if threads == 1 else f"{row['variant']}, {on_threads(threads)}")
    style.points(axis, pd.DataFrame([row]), column, _RATE, look, text, line=False)
    if threads > 1:
        rim: dict[str, Any] = {"facecolors": "none", "edgecolors": INK, "linewidths": 1.2}
        axis.scatter([intensity], [row["rate"]], s=60, marker=look.marker, zorder=4, **rim)
    if row["intensity"] == AT_MOST:
        tail = {"arrowstyle": "->", "color": look.colour, "linewidth": 1.2}
        ends = ((intensity / 3, row["rate"]), (intensity, row["rate"]))
        axis.annotate("", ends[0], ends[1], arrowprops=tail)


def split(wholes: Sequence[tuple[tuple[str, str], pd.DataFrame]]) -> Figure:
    """Draw how gains over the naive CPU loop are made up, a bar each, on a logarithmic axis.

    `wholes` are (two lines of text, rows), the rows being the parts of one whole in cpu_split.csv,
    in order. A part begins where the one before ends; one that loses leads back, as a thinner bar.
    A line at the end of a part is the interval of its factor.
    """
    figure, (axis,) = style.new_figure(width=8.0, height=1.6 + 0.55 * len(wholes))
    for place, (_, rows) in enumerate(wholes):
        reached = 1.0
        for row in rows.to_dict("records"):
            end = reached * float(row["factor"])
            _split_part(axis, place, (reached, end), row)
            reached = end
        axis.annotate(
            f"× {_rounded(reached)}",
            (max(reached, 1.0), place),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
            fontweight="bold",
        )
    shown = {part for _, rows in wholes for part in rows["part"]}
    for part, (text, colour, hatch) in style.SPLIT.items():
        if part in shown:
            axis.bar([1], [0], color=colour, hatch=hatch, linewidth=0, label=text)
    names = ["\n".join(map(label, lines)) for lines, _ in wholes]
    axis.set_yticks(range(len(wholes)), names)
    axis.set_ylim(-0.7, len(wholes) - 0.4)
    axis.invert_yaxis()
    axis.grid(visible=False, axis="y")
    axis.set_xlim(1, None)
    axis.set_xlabel("times as fast as the naive loop on one thread (logarithmic)")
    style.log_axis(axis, "x")
    axis.margins(x=0.15)
    legend(figure, axis, below=True)
    return figure


def _split_part(axis: Axes, place: int, ends: tuple[float, float], row: Mapping[str, Any]) -> None:
    """Draw one part of a whole, from the one end to the other."""
    _, colour, hatch = style.SPLIT[str(row["part"])]
    low, high = sorted(ends)
    gains = ends[1] >= ends[0]
    bar: dict[str, Any] = {"color": colour, "hatch": hatch, "linewidth": 0}
    axis.barh(place, high - low, 0.6 if gains else 0.3, low, **bar)
    low_end, high_end = (ends[0] * float(row[f"factor_{side}"]) for side in ("low", "high"))
    if np.isfinite(low_end) and np.isfinite(high_end):
        axis.hlines(place + 0.36, low_end, high_end, color=INK, linewidth=2)
    axis.annotate(
        f"× {_rounded(float(row['factor']))}",
        (float(np.sqrt(low * high)), place - 0.33),
        ha="center",
        va="bottom",
        fontsize=8,
    )


def _rounded(factor: float) -> str:
    """Return a factor with three digits and no exponent."""
    digits = max(2 - int(np.floor(np.log10(factor))), 0)
    return style.plain_number(round(factor, digits) if digits else float(f"{factor:.3g}"))


def _one_scale(axes: Sequence[Axes]) -> None:
    """Give all panels one logarithmic scale of rates."""
    for axis in axes:
        axis.set_yscale("log")
    low = min(axis.get_ylim()[0] for axis in axes)
    high = max(axis.get_ylim()[1] for axis in axes)
    for axis in axes:
        axis.set_ylim(low, high)
        style.log_axis(axis, "y")


def _legend_of_all(figure: Figure, axes: Sequence[Axes]) -> None:
    """Put one legend of all that any of the panels shows below them."""
    found: dict[str, Any] = {}
    for axis in axes:
        handles, texts = axis.get_legend_handles_labels()
        found |= dict(zip(texts, handles, strict=True))
    figure.legend(
        list(found.values()), list(found), loc="outside lower center", fontsize=8, ncols=3
    )
