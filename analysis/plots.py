"""The drawings: each function draws one figure from data frames and knows no file.

Frames have the columns of the CSV tables; rates are in FLOP/s there
and in GFLOP/s in the figures.
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from analysis import style
from analysis.svg import INK, label

TOTAL = "total"
KERNEL = "kernel"
MEANING = {TOTAL: "transfers included", KERNEL: "kernel only"}
_RATE = ("rate", "rate_low", "rate_high")
_KEY = ["is_cpu", "variant", "threads"]


def with_rates(cells: pd.DataFrame, quantity: str) -> pd.DataFrame:
    """Return `cells` with rate, rate_low, rate_high in GFLOP/s from the times of `quantity`.

    Rows without that time are left out; a slow bound of the time is the low bound of the rate.
    """
    cells = cells[cells[f"{quantity}_s"].notna()].copy()
    work = 2e-9 * cells[["batch", "m", "n", "k"]].astype(float).prod(axis=1)
    cells["rate"] = work / cells[f"{quantity}_s"]
    cells["rate_low"] = work / cells[f"{quantity}_high_s"]
    cells["rate_high"] = work / cells[f"{quantity}_low_s"]
    return cells


def best_blocks(cells: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return, for each group of `by`, the row with the highest rate."""
    return cells.loc[cells.groupby(by, sort=False)["rate"].idxmax()]


def variants_at_size(cells: pd.DataFrame, published: pd.DataFrame, n: int) -> Figure:
    """Draw Figure 1: the rate of every variant at order `n`, with its best block size.

    `cells` are one recording's rows of summary.csv of that order, with `is_cpu`; of a GPU, threads
    is 0. `published` has variant, is_cpu and rate in GFLOP/s.
    """
    on_cpu = {
        threads: with_rates(cells[cells["is_cpu"] & (cells["threads"] == threads)], TOTAL)
        for threads in sorted(set(cells.loc[cells["is_cpu"], "threads"]))
    }
    series = [
        ("kernel only", with_rates(cells[~cells["is_cpu"]], KERNEL), "D"),
        ("total, pinned memory", with_rates(cells[cells["host_memory"] == "pinned"], TOTAL), "s"),
        (
            "total, pageable memory",
            with_rates(cells[cells["host_memory"] == "pageable"], TOTAL),
            "o",
        ),
        *(
            (f"CPU, {on_threads(threads)}", rows, "^" if threads == 1 else "v")
            for threads, rows in on_cpu.items()
        ),
    ]
    best = [(text, best_blocks(rows, ["is_cpu", "variant"]), mark) for text, rows, mark in series]
    order = pd.concat([rows for _, rows, _ in best])
    order = order.groupby(["is_cpu", "variant"])["rate"].max().sort_values()
    order = order.sort_index(level="is_cpu", ascending=False, sort_remaining=False)
    places = {key: place for place, key in enumerate(order.index)}
    looks = style.looks(places)
    figure, (axis,) = style.new_figure(width=6.4, height=1.5 + 0.3 * max(len(places), 3))
    for text, rows, mark in best:
        if rows.empty:
            continue
        axis.scatter([], [], marker=mark, s=30, color=INK, linewidths=0, label=text)
        for row in rows.itertuples():
            look = looks[(row.is_cpu, row.variant)]
            shape = style.Look(look.colour, mark, look.line)
            _across(axis, places[(row.is_cpu, row.variant)], row, shape)
    shown = published[[key in places for key in _keys(published)]]
    if not shown.empty:
        rows = [places[key] for key in _keys(shown)]
        axis.scatter(shown["rate"], rows, marker="x", s=30, color=style.GREY, label="published")
    axis.set_yticks(list(places.values()), [_name(is_cpu, name) for is_cpu, name in places])
    axis.set_ylim(-0.6, len(places) - 0.4)
    axis.set_xlabel(f"rate at N = {style.plain_number(n)} in GFLOP/s (logarithmic)")
    style.log_axis(axis, "x")
    legend(figure, axis, below=True)
    return figure


def best_over_cards(cells: pd.DataFrame, published: list[tuple[str, float]], n: int) -> Figure:
    """Draw Figure 2: the fastest variant at order `n` on each card, over the published range.

    `cells` are rows of all recordings with `gpu`; `published` are (name, GFLOP/s) of single cards.
    """
    cells = cells[(cells["n"] == n) & ~cells["is_cpu"]]
    cards = list(dict.fromkeys(cells["gpu"]))
    places = {card: place for place, card in enumerate(reversed(cards), start=len(published))}
    height = 1.6 + 0.4 * (len(cards) + len(published))
    figure, (axis,) = style.new_figure(width=6.4, height=height)
    axis.axvspan(100, 300, color=style.GREY, alpha=0.25, linewidth=0)
    axis.plot([], [], color=style.GREY, alpha=0.4, linewidth=8, label="published text, most cards")
    series = [
        ("kernel only", with_rates(cells, KERNEL), "D"),
        ("total, pinned memory", with_rates(cells[cells["host_memory"] == "pinned"], TOTAL), "s"),
        (
            "total, pageable memory",
            with_rates(cells[cells["host_memory"] == "pageable"], TOTAL),
            "o",
        ),
    ]
    looks = style.looks((False, name) for name in cells["variant"])
    for text, rows, mark in series:
        if rows.empty:
            continue
        axis.scatter([], [], marker=mark, s=30, color=INK, linewidths=0, label=text)
        for row in best_blocks(rows, ["gpu"]).itertuples():
            colour = looks[(False, row.variant)].colour
            _across(axis, places[row.gpu], row, style.Look(colour, mark, "-"))
    for place, (_, rate) in enumerate(published):
        axis.scatter([rate], [place], marker="x", s=30, color=style.GREY)
    names = [label(name) for name, _ in published] + [label(card) for card in reversed(cards)]
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(-0.6, len(names) - 0.4)
    axis.set_xlabel(f"rate of the fastest variant at N = {style.plain_number(n)} in GFLOP/s (log)")
    style.log_axis(axis, "x")
    legend(figure, axis, below=True)
    return figure


def rate_over_size(cells: pd.DataFrame) -> Figure:
    """Draw the rate over N of every variant, each with its best block size at that N."""
    return _rates(cells, "n", "matrix order N")


def rate_over_block(cells: pd.DataFrame) -> Figure:
    """Draw the rate over the block size B of every variant that has one; `cells` have one N."""
    return _rates(cells[cells["block_size"].notna()], "block_size", "block size B")


def _rates(cells: pd.DataFrame, x: str, name: str) -> Figure:
    """Draw rates over column `x`: with transfers on the left, of the kernel alone on the right."""
    panels = [(TOTAL, with_rates(cells, TOTAL)), (KERNEL, with_rates(cells, KERNEL))]
    panels = [(quantity, rows) for quantity, rows in panels if not rows.empty]
    looks = style.looks(_keys(cells))
    figure, axes = style.new_figure(columns=len(panels), height=4.0)
    for axis, (quantity, rows) in zip(axes, panels, strict=True):
        groups = dict(list(best_blocks(rows, [*_KEY, x]).groupby(_KEY)))
        for is_cpu, variant in looks:
            for key in (key for key in groups if key[:2] == (is_cpu, variant)):
                look = style.on_threads(looks[is_cpu, variant], key[2])
                points = groups[key].sort_values(x)
                style.points(axis, points, x, _RATE, look, text=_name(*key))
        axis.set_title(MEANING[quantity])
        axis.set_xlabel(f"{name} (logarithmic)")
        style.log_axis(axis, "y")
        style.ticks_at(axis, (int(value) for value in cells[x]))
    low = min(axis.get_ylim()[0] for axis in axes)
    high = max(axis.get_ylim()[1] for axis in axes)
    for axis in axes:
        axis.set_ylim(low, high)
        style.log_axis(axis, "y")
    axes[0].set_ylabel("rate in GFLOP/s (logarithmic)")
    legend(figure, axes[0])
    return figure


def split_of_total(cells: pd.DataFrame) -> Figure:
    """Draw the parts of the total time as shares over N, one panel for each host memory kind.

    `cells` are the rows of one variant and block size, with all parts measured.
    """
    kinds = [kind for kind in ("pageable", "pinned") if (cells["host_memory"] == kind).any()]
    parts = {part: how for part, how in style.PARTS.items() if (cells[part] > 0).any()}
    figure, axes = style.new_figure(columns=len(kinds), height=3.6)
    for axis, kind in zip(axes, kinds, strict=True):
        rows = cells[cells["host_memory"] == kind].sort_values("n")
        whole = rows[list(style.PARTS)].sum(axis=1).to_numpy(dtype=float)
        bottom = np.zeros(len(rows))
        for part, (text, colour, hatch) in parts.items():
            share = 100 * rows[part].to_numpy(dtype=float) / whole
            axis.bar(
                range(len(rows)),
                share,
                0.7,
                bottom,
                label=text,
                color=colour,
                hatch=hatch,
                linewidth=0,
            )
            bottom += share
        for place, total in enumerate(rows["total_s"]):
            axis.text(place, 101, f"{1e3 * total:.3g}", ha="center", va="bottom", fontsize=8)
        axis.set_xticks(range(len(rows)), [style.plain_number(n) for n in rows["n"]])
        axis.set_title(f"{kind} host memory")
        axis.set_xlabel("matrix order N")
        axis.set_ylim(0, 107)
        axis.grid(visible=False, axis="x")
    axes[0].set_ylabel("share of the total time in %")
    legend(figure, axes[0])
    return figure


def link_bandwidth(ceilings: pd.DataFrame) -> Figure:
    """Draw the bandwidth between host and card over the size of a copy, one panel a card.

    `ceilings` are rows of ceilings.csv of copies between host and card, with `gpu` as shown.
    """
    cards = list(dict.fromkeys(ceilings["gpu"]))
    figure, axes = _panels(len(cards))
    for axis, card in zip(axes, cards, strict=True):
        rows = ceilings[ceilings["gpu"] == card].sort_values("size_bytes")
        for (quantity, memory), group in rows.groupby(["quantity", "host_memory"], sort=True):
            way = "to the card" if quantity == "h2d_bytes_per_s" else "back"
            look = _LINKS[(quantity, memory)]
            size, value, low, high = (
                group[name].to_numpy(dtype=float)
                for name in ("size_bytes", "value", "value_low", "value_high")
            )
            axis.fill_between(size, low / 1e9, high / 1e9, color=look.colour, alpha=0.3, lw=0)
            marks: dict[str, Any] = {"color": look.colour, "marker": look.marker, "ms": 4}
            axis.plot(size, value / 1e9, look.line, lw=1.1, label=f"{memory}, {way}", **marks)
        axis.set_title(label(card))
        axis.set_xlabel("size of the copy in bytes (logarithmic)")
        axis.set_ylabel("GB/s (logarithmic)")
        axis.set_xscale("log", base=2)
        sizes = sorted(set(rows["size_bytes"].astype(float)))[::2]
        axis.set_xticks(sizes, [style.binary_size(size) for size in sizes])
        axis.xaxis.set_minor_locator(NullLocator())
        style.log_axis(axis, "y")
    legend(figure, axes[0], below=True)
    return figure


_LINKS = {
    ("h2d_bytes_per_s", "pinned"): style.Look("#1f7ec2", "o", "-"),
    ("d2h_bytes_per_s", "pinned"): style.Look("#00966c", "s", "--"),
    ("h2d_bytes_per_s", "pageable"): style.Look("#d55e00", "^", "-"),
    ("d2h_bytes_per_s", "pageable"): style.Look("#c2609a", "v", "--"),
}


def launch_overhead(batches: pd.DataFrame) -> Figure:
    """Draw single launches over those back to back, by the length of the latter; a panel a card.

    `batches` are rows of batches.csv with a ratio, with `gpu` as shown.
    """
    cards = list(dict.fromkeys(batches["gpu"]))
    looks = style.looks((False, name) for name in batches["variant"])
    figure, axes = _panels(len(cards))
    rows = batches.assign(batch_us=1e6 * batches["kernel_batch_s"])
    for axis, card in zip(axes, cards, strict=True):
        axis.axhline(1, color=INK, linewidth=1)
        own = rows[rows["gpu"] == card]
        for variant in dict.fromkeys(rows["variant"]):
            group = own[own["variant"] == variant]
            ratio = ("ratio", "ratio_low", "ratio_high")
            look = looks[(False, variant)]
            style.points(axis, group, "batch_us", ratio, look, text=label(variant), line=False)
        axis.set_title(label(card))
        axis.set_xlabel("kernel back to back in µs (logarithmic)")
        axis.set_ylabel("one launch / back to back")
        style.log_axis(axis, "x")
    legend(figure, axes[0], below=True)
    return figure


def _panels(count: int) -> tuple[Figure, list[Axes]]:
    """Return a figure with `count` axes, two a row."""
    columns = min(count, 2)
    rows = -(-count // 2)
    figure, axes = style.new_figure(columns=columns, rows=rows, height=0.6 + 2.8 * rows)
    for unused in axes[count:]:
        unused.remove()
    return figure, axes[:count]


def _across(axis: Axes, place: float, row: object, look: style.Look) -> None:
    """Draw one rate on a horizontal line; hollow where it has no interval."""
    rate, low, high = (getattr(row, name) for name in _RATE)
    bounded = bool(np.isfinite(low) and np.isfinite(high))
    if bounded:
        axis.hlines(place, low, high, color=look.colour, linewidth=1.6)
    axis.scatter(
        [rate],
        [place],
        s=34,
        marker=look.marker,
        zorder=3,
        linewidths=1.2 if not bounded else 0,
        facecolors=look.colour if bounded else "none",
        edgecolors=look.colour,
    )


def _keys(rows: pd.DataFrame) -> list[tuple[bool, str]]:
    """Return (is CPU, variant) of each row, which fixes how it is drawn."""
    return list(zip(rows["is_cpu"], rows["variant"], strict=True))


def _name(is_cpu: bool, variant: str, threads: int = 0) -> str:
    """Return how a series is called; `threads` of a CPU are 0 where its name stands for all."""
    on = f", {on_threads(threads)}" if threads else ""
    return label(f"CPU {variant}{on}" if is_cpu else variant)


def on_threads(threads: int) -> str:
    """Return "one thread", or how many."""
    return "one thread" if threads == 1 else f"{threads} threads"


def legend(figure: Figure, axis: Axes, below: bool = False) -> None:
    """Put one legend for all panels at the right of the figure, or below it."""
    handles, texts = axis.get_legend_handles_labels()
    if handles and below:
        figure.legend(handles, texts, loc="outside lower center", fontsize=8, ncols=3)
    elif handles:
        figure.legend(handles, texts, loc="outside right upper", fontsize=8)
