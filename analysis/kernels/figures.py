"""The figures of the kernels: ladder, throughput by size, roofline, parts of a run."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.data.best import fastest
from analysis.data.cells import compared_memory, of_sizes, rates_of
from analysis.data.devices import Device, Devices
from analysis.data.store import Store
from analysis.domain import CEILINGS, CPU, KERNEL_MEMORY_ORDER, SHAPE, preferred_memory
from analysis.drawing import palette, style
from analysis.drawing.style import RATE, with_rates
from analysis.drawing.svg import INK, hover, label
from kernels.catalog.entries import LIBRARIES, VARIANTS
from kernels.catalog.walk import STEPS
from kernels.products.shape import Shape

# Kernels that are named in a figure: steps of the ladder's main line, and libraries.
_NAMED = {*STEPS} | LIBRARIES
_ANY_SHAPE = {name for name, entry in VARIANTS.items() if entry.origin == "L"}
_MOST_BARS = 6
_ROOFS = {
    "l1_bytes_per_s": "L1",
    "l2_bytes_per_s": "L2",
    "device_copy_bytes_per_s": "device memory",
}


def ladder(store: Store, devices: Devices) -> Figure | None:
    """Draw the throughput of each kernel: bars for the GPU in focus, points for other GPUs.

    A bar has the colour of its family. A line marks the FMA ceiling of the GPU in focus, if known.
    """
    # The naive kernel has two rows; the second one, with its fastest block size, is shown.
    listed = store["ladder_summary"].drop_duplicates(["gpu", "variant"], keep="last")
    gpus = [gpu for gpu in devices.gpus if (listed["gpu"] == gpu.label).any()]
    gpus = gpus[: style.MOST_COLOURS]
    if not gpus or gpus[0] is not devices.focus:
        return None
    rates = with_rates(listed.assign(batch=1, m=listed["n"], k=listed["n"]), "kernel")
    rates = rates.assign(**{name: rates[name] / 1e3 for name in RATE})  # from GFLOP/s to TFLOP/s
    of = {gpu.short: rates[rates["gpu"] == gpu.label] for gpu in gpus}
    looks = style.looks_of(devices)
    ceilings = store["ceilings"]
    is_peak = (ceilings["gpu"] == gpus[0].label) & (ceilings["quantity"] == "fp32_flop_per_s")
    peak = ceilings.loc[is_peak, "value"].max() / 1e12
    (first, rows), *others = of.items()
    heights = {variant: height for height, variant in enumerate(rows["variant"])}
    figure, (axis,) = style.new_figure(width=8.0, height=0.9 + 0.22 * len(rows))
    families = [palette.family_of(variant) for variant in heights]
    colours = [palette.FAMILIES[family][1] for family in families]
    bars = axis.barh(list(heights.values()), rows["rate"], 0.62, color=colours, linewidth=0)
    texts = _tooltips(rows, (f"{name}, {first}" for name in heights), _tera)
    for bar, text, rate, height in zip(bars, texts, rows["rate"], heights.values(), strict=True):
        hover(bar, [text])
        style.note(axis, f"{rate:.3g}", (rate, height), (5, 0))
    _family_keys(axis, families, "s")
    for title, part in others:
        part = part[part["variant"].isin(heights)]
        at = part["variant"].map(heights) + 0.38
        look = looks[title]
        drawn = axis.scatter(part["rate"], at, marker=look.marker, s=14, color=look.colour, lw=0)
        hover(drawn, _tooltips(part, (f"{name}, {title}" for name in part["variant"]), _tera))
        axis.plot([], [], look.marker, color=look.colour, label=label(title))
    if np.isfinite(peak):
        axis.axvline(peak, color=INK, linewidth=1.1, linestyle="--", label="FMA throughput")
    axis.set_yticks(list(heights.values()), [label(name) for name in heights])
    axis.set_ylim(len(heights) - 0.4, -0.5)
    axis.margins(x=0.08)
    axis.set_xlim(0, None)
    axis.grid(visible=False, axis="y")
    axis.set_xlabel("kernel-only throughput in TFLOP/s")
    style.legend(figure, [axis])
    return figure


def _family_keys(axis: Axes, families: Iterable[str], marker: str | None = None) -> None:
    shown = set(families)
    for family in [family for family in palette.FAMILIES if family in shown]:
        title, colour, of_family = palette.FAMILIES[family]
        style.key(axis, palette.Look(colour, marker or of_family, "none"), title)


def rate_size(store: Store, devices: Devices) -> Figure | None:
    """Draw the kernel-only throughput over the matrix size on the GPU in focus.

    It shows the ladder's main line, libraries, user-supplied kernels and the fastest one.
    """
    if devices.focus is None:
        return None
    cells = _kernels(store, devices.focus)
    last = fastest(cells[cells["n"] == cells["n"].max()], "kernel_s")["variant"]
    shown = cells["variant"].isin({*_NAMED, *last}) | ~cells["variant"].isin(VARIANTS)
    rows = fastest(cells[shown], "kernel_s", ["variant", "n"])
    if rows.empty:
        return None
    figure, (axis,) = style.new_figure(height=4.2)
    for variant, curve in rows.sort_values("n").groupby("variant"):
        look, name = palette.kernel_look(str(variant)), str(variant)
        style.points(axis, curve, "n", RATE, look, name, tell=style.gflops)
    style.log_axis(axis, "y")
    style.ticks_at(axis, (int(n) for n in rows["n"]))
    axis.set_xlabel("matrix size N")
    axis.set_ylabel("throughput in GFLOP/s")
    ends = rows.sort_values("n").groupby("variant", as_index=False).last()
    ends = ends.rename(columns={"n": "x", "rate": "y", "variant": "text"})
    colours = [palette.kernel_look(name).colour for name in ends["text"]]
    style.name_ends(figure, axis, ends.assign(colour=colours))
    return figure


def _kernels(store: Store, gpu: Device) -> pd.DataFrame:
    cells = of_sizes(store["summary"])
    of_gpu = cells[(cells["gpu"] == gpu.label).fillna(False) & (cells["device"] != CPU)]
    memory = preferred_memory("kernel", of_gpu["host_memory"])
    return with_rates(of_gpu[of_gpu["host_memory"] == memory], "kernel")


def split(store: Store, devices: Devices) -> Figure | None:
    """Draw the parts of a run of the fastest kernel by matrix size, one panel per host memory."""
    if devices.focus is None:
        return None
    rows = store["ladder_summary"]
    fastest_cells = rows[(rows["gpu"] == devices.focus.label) & rows["is_fastest"].fillna(False)]
    if fastest_cells.empty:
        return None
    best = fastest(fastest_cells, "kernel_s").iloc[0]
    cells = of_sizes(store["summary"])
    cells = cells[(cells["gpu"] == devices.focus.label) & (cells["variant"] == best["variant"])]
    if not pd.isna(best["block_size"]):
        cells = cells[cells["block_size"] == best["block_size"]]
    cells = cells.fillna({"host_s": 0.0}).dropna(subset=[*palette.PARTS, "total_s"])
    if cells.empty:
        return None
    kinds = [kind for kind in KERNEL_MEMORY_ORDER if (cells["host_memory"] == kind).any()]
    parts = {part: how for part, how in palette.PARTS.items() if (cells[part] > 0).any()}
    figure, axes = style.panels(len(kinds), height=2.9)
    for axis, kind in zip(axes, kinds, strict=True):
        rows = _few(cells[cells["host_memory"] == kind].sort_values("n"))
        whole = rows[list(palette.PARTS)].sum(axis=1).to_numpy(dtype=float)
        bottom = np.zeros(len(rows))
        for part, (text, colour, hatch) in parts.items():
            share = 100 * rows[part].to_numpy(dtype=float) / whole
            look: dict[str, Any] = {"color": colour, "hatch": hatch, "linewidth": 0}
            bars = axis.bar(range(len(rows)), share, 0.7, bottom, label=text, **look)
            for bar, n, percent, time_s in zip(bars, rows["n"], share, rows[part], strict=True):
                shown = f"{text}, N = {style.plain_number(n)}: {percent:.3g} %, "
                hover(bar, [shown + style.seconds(time_s)])
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
    style.legend(figure, axes)
    return figure


def _few(rows: pd.DataFrame) -> pd.DataFrame:
    """Return up to `_MOST_BARS` rows that are far apart in N; powers of two if there are two."""
    powers = rows[np.log2(rows["n"].astype(float)) % 1 == 0]
    rows = powers if len(powers) > 1 else rows
    return rows[:: -max(1, -(-len(rows) // _MOST_BARS))][::-1]


def roofline(store: Store, devices: Devices) -> Figure | None:
    """Draw the kernels of the GPU in focus, each with the measured ceiling nearest to it."""
    if devices.focus is None:
        return None
    rows = store["roofline"]
    rows = rows[(rows["gpu"] == devices.focus.label) & rows["flop_per_byte_of_sectors"].notna()]
    if rows.empty:
        return None
    ceilings = rates_of(store["ceilings"], devices.focus.label)
    peak = ceilings.get("fp32_flop_per_s", float("nan"))
    flop = 2.0 * rows["n"].astype(float) ** 3
    rows = rows.assign(bound_flop_per_s=flop / rows["bound_s"])
    rows = with_rates(rows, "kernel")
    figure, (axis,) = style.new_figure(width=8.0, height=4.4)
    x, y = "flop_per_byte_of_sectors", "rate"
    if np.isfinite(peak):
        axis.axhline(peak / 1e9, color=INK, linewidth=1.2)
        at = (rows[x].min(), peak / 1e9)
        style.note(axis, "FMA throughput", at, (0, 3), va="bottom")
    at = rows[x], rows["bound_flop_per_s"] / 1e9
    drawn = axis.scatter(*at, marker="_", s=120, color=INK, label="nearest ceiling of a kernel")
    shares = zip(rows["variant"], rows["share_of_bound"], rows["bound"], strict=True)
    hover(drawn, [f"{name}: {100 * share:.0f} % of {CEILINGS[of]}" for name, share, of in shares])
    for variant, cells in rows.groupby("variant", sort=False):
        how = {"names": [f"{variant}, {style.rounded(value)} FLOP per byte" for value in cells[x]]}
        look = palette.kernel_look(str(variant))
        style.points(axis, cells, x, RATE, look, None, line=False, tell=style.gflops, **how)
    _family_keys(axis, map(palette.family_of, rows["variant"]))
    axis.set_xlabel("FLOP per byte of global-memory sectors")
    axis.set_ylabel("throughput in GFLOP/s")
    style.log_axis(axis, "x")
    style.log_axis(axis, "y")
    axis.margins(x=0.15)
    _slopes(axis, ceilings)
    style.legend(figure, [axis])
    is_named = rows["variant"].isin(_NAMED) & ~rows["variant"].duplicated(keep="last")
    named = rows["variant"].where(is_named, "")
    style.name_points(figure, axis, rows.assign(x=rows[x], y=rows[y], text=named))
    return figure


def _slopes(axis: Axes, ceilings: Mapping[str, float]) -> None:
    """Draw the sloped roofs, bandwidth times FLOP per byte, up to the FMA throughput."""
    low, high = axis.get_xlim()
    bottom, top = axis.get_ylim()
    peak = ceilings.get("fp32_flop_per_s", math.inf)
    for name, text in _ROOFS.items():
        bandwidth = ceilings.get(name, math.nan)
        ends = max(low, 1e9 * bottom / bandwidth), min(high, peak / bandwidth)
        if ends[0] < ends[1]:
            axis.plot(ends, [bandwidth * end / 1e9 for end in ends], color=INK, linewidth=1.2)
            # The names are at the lower ends, where no kernels are.
            start = ends[0], bandwidth * ends[0] / 1e9
            style.note(axis, text, start, (13, 1), ha="left", va="bottom")
    axis.set(xlim=(low, high), ylim=(bottom, top))


def shapes(store: Store, devices: Devices) -> Figure | None:
    """Draw the throughput of source L's kernels by shape and data type, for the GPU in focus."""
    if devices.focus is None:
        return None
    cells = store["summary"]
    part = cells[(cells["gpu"] == devices.focus.label) & cells["variant"].isin(_ANY_SHAPE)]
    part = part[part["kernel_s"].notna()]
    if part.empty:
        return None
    rows = with_rates(part[part["host_memory"] == compared_memory(part)], "kernel")
    rows = fastest(rows, "kernel_s", ["variant", "dtype", *SHAPE]).sort_index()
    edges = zip(*(rows[edge].astype(int) for edge in ("batch", "m", "n", "k")), strict=True)
    rows = rows.assign(shape=[Shape(*each) for each in edges])
    distinct = sorted(set(rows["shape"]), key=lambda shape: (shape.batch, shape.flop))
    heights = {shape: height for height, shape in enumerate(distinct)}
    types = list(dict.fromkeys(rows["dtype"]))
    figure, axes = style.panels(len(types), columns=3, height=0.8 + 0.24 * len(heights))
    for position, (axis, dtype) in enumerate(zip(axes, types, strict=True)):
        for variant, part in rows[rows["dtype"] == dtype].groupby("variant", sort=False):
            look = palette.kernel_look(str(variant))
            at = part["shape"].map(heights)
            axis.hlines(at, part["rate_low"], part["rate_high"], color=look.colour, linewidth=1.6)
            marks: dict[str, Any] = {"marker": look.marker, "color": look.colour, "s": 26, "lw": 0}
            drawn = axis.scatter(part["rate"], at, **marks)
            names = (f"{variant}, {shape}" for shape in part["shape"])
            hover(drawn, _tooltips(part, names, style.gflops))
        texts = [str(shape).replace("x", "×") for shape in distinct]
        axis.set_yticks(range(len(distinct)), texts if not position else [""] * len(distinct))
        axis.set_ylim(-0.6, len(distinct) - 0.4)
        axis.set_title(str(dtype))
        axis.set_xlabel("10⁹ operations/s")
        style.log_axis(axis, "x")
    _family_keys(axes[0], map(palette.family_of, rows["variant"]))
    style.legend(figure, axes)
    return figure


def _tooltips(rows: pd.DataFrame, names: Iterable[str], tell: Callable[[float], str]) -> list[str]:
    rates = zip(names, *(rows[column] for column in RATE), strict=True)
    return [style.tooltip(name, rate, low, high, tell) for name, rate, low, high in rates]


def _tera(value: float) -> str:
    return f"{style.rounded(value)} TFLOP/s"


FIGURES = style.named(ladder, rate_size, split, roofline, shapes)
