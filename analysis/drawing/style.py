"""Common style of all figures: axes, legends, points with intervals, units."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from textwrap import wrap
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator
from matplotlib.transforms import Bbox
from scipy.optimize import isotonic_regression

from analysis.data.devices import Device, Devices
from analysis.data.store import Store
from analysis.drawing.palette import Look, gpu_looks
from analysis.drawing.svg import INK, PAPER, hover, label
from analysis.stats.estimates import FloatArray
from analysis.stats.rounding import order_of_magnitude
from kernels.theory import tiles

mpl.use("svg")  # this backend works without a display
RATE = ("rate", "rate_low", "rate_high")  # columns of `with_rates`
Draw = Callable[[Store, Devices], Figure | None]
# Maximum number of GPUs with one panel each, and with one colour each. With more GPUs, a figure has
# a panel for the first GPU only, or the first colours.
MOST_PANELS, MOST_COLOURS = 6, 8
# Up to these ratios of the axis limits, ticks are evenly spaced, or else at _FACTORS.
_NEAR, _FAR = 2.0, 20.0
_FACTORS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0, 15.0, 20.0)
# Where a text can be beside its point: alignments, and offset in points.
_BESIDE = (
    ("left", "center", (9, 0)),
    ("right", "center", (-9, 0)),
    ("center", "bottom", (0, 6)),
    ("center", "top", (0, -6)),
    ("left", "bottom", (5, 8)),
    ("right", "top", (-5, -8)),
)


def theme() -> AbstractContextManager[None]:
    """Return the context in which to draw and save a figure."""
    settings = sns.axes_style("ticks") | sns.plotting_context("paper")
    ink = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    settings |= dict.fromkeys((*ink, "grid.color", "hatch.color"), INK)
    settings |= {"axes.grid": True, "grid.alpha": 0.15, "hatch.linewidth": 0.6}
    settings |= {"axes.titlesize": 10, "axes.titleweight": "bold", "legend.frameon": False}
    settings |= {"axes.spines.top": False, "axes.spines.right": False}
    # Names are user input, so a dollar sign must not start mathematics.
    return mpl.rc_context(settings | {"text.parse_math": False})


def named(*drawings: Draw) -> dict[str, Draw]:
    """Return drawing functions by the name of their figure: hyphens replace underscores."""
    return {draw.__name__.replace("_", "-"): draw for draw in drawings}


def panelled(cards: Sequence[Device]) -> Sequence[Device]:
    """Return the GPUs that get a panel: all, or only the first if they are too many."""
    return cards if len(cards) <= MOST_PANELS else cards[:1]


def panels(
    count: int, columns: int = 2, height: float = 2.7, width: float = 8.0
) -> tuple[Figure, list[Axes]]:
    """Return a figure with `count` panels in rows of at most `columns`; sizes in inches."""
    columns = min(count, columns)
    rows = -(-count // columns)
    figure, axes = new_figure(columns, rows, width, 0.6 + height * rows)
    for unused in axes[count:]:
        unused.remove()
    return figure, axes[:count]


def legend(figure: Figure, axes: Sequence[Axes]) -> None:
    """Add one legend for all panels below the figure, which becomes higher if it needs more rows.

    As many columns are used as fit in the figure, and the rows are about equally long.
    """
    handles: dict[str, Any] = {}
    for axis in axes:
        for handle, text in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(text, handle)
    how: dict[str, Any] = {"loc": "outside lower center", "fontsize": 8}
    for rows in range(1, len(handles) + 1):
        columns = -(-len(handles) // rows)
        drawn = figure.legend(list(handles.values()), list(handles), ncols=columns, **how)
        box = drawn.get_window_extent()
        if box.width <= figure.bbox.width or columns == 1:
            more = (rows - 1) / rows * box.height / figure.dpi
            figure.set_figheight(figure.get_figheight() + more)
            return
        drawn.remove()


def same_y(axes: Sequence[Axes]) -> None:
    """Give all panels the same y range, and recompute their ticks."""
    limits = [axis.get_ylim() for axis in axes]
    for axis in axes:
        axis.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))
        if axis.get_yscale() == "log":
            log_axis(axis, "y")


def new_figure(
    columns: int = 1, rows: int = 1, width: float = 8.0, height: float = 3.6
) -> tuple[Figure, list[Axes]]:
    """Return an empty figure, `width` by `height` inches, and its axes in reading order."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = [figure.add_subplot(rows, columns, index + 1) for index in range(rows * columns)]
    return figure, axes


def log_axis(axis: Axes, which: str, base: int = 10) -> None:
    """Make the axis `which` ("x" or "y") logarithmic, with plain numbers as tick labels."""
    set_scale = axis.set_xscale if which == "x" else axis.set_yscale
    set_scale("log", base=base)
    scale = axis.xaxis if which == "x" else axis.yaxis
    low, high = sorted(axis.get_xlim() if which == "x" else axis.get_ylim())
    short = base == 10 and high / low < 200
    scale.set_major_locator(LogLocator(base=base, subs=(1.0, 2.0, 5.0) if short else (1.0,)))
    scale.set_minor_locator(NullLocator())
    scale.set_major_formatter(FuncFormatter(plain_number))
    scale.set_minor_formatter(NullFormatter())


def factor_axis(axis: Axes, which: str) -> None:
    """Make an axis of factors logarithmic, with ticks that suit its range."""
    log_axis(axis, which)
    low, high = axis.get_xlim() if which == "x" else axis.get_ylim()
    ratio = high / low
    if ratio < _NEAR:
        shown = list(MaxNLocator(7, steps=[1, 2, 5, 10]).tick_values(low, high))
    else:
        shown = [tick for tick in _FACTORS if ratio < _FAR]
    shown = [tick for tick in shown if low <= tick <= high]
    if shown:
        set_ticks = axis.set_xticks if which == "x" else axis.set_yticks
        set_ticks(shown, [plain_number(tick) for tick in shown])


def ticks_at(axis: Axes, values: Iterable[int]) -> None:
    """Put the ticks of a logarithmic x axis at the measured `values`."""
    shown = sorted(set(values))
    axis.set_xscale("log", base=2)
    axis.set_xticks(shown, [plain_number(value) for value in shown])
    axis.xaxis.set_minor_locator(NullLocator())


def plain_number(value: float, _position: int | None = None) -> str:
    """Return a tick label without exponent: 0.01, 20, 2048, 50 000."""
    group = "," if abs(value) >= 1e4 else ""
    return f"{value:{group}.10g}".replace(",", "\u202f")


def plain_time(value: float, _position: int | None = None) -> str:
    """Return a tick label for a time in seconds: 10 µs, 1 ms, 100 ms, 10 s."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if value * factor >= 1 - 1e-9:
            return f"{plain_number(value * factor)} {unit}"
    return f"{plain_number(value * 1e9)} ns"


def rounded(value: float, digits: int = 4) -> str:
    """Return a value with `digits` significant digits: 12.75, 51 390."""
    return plain_number(float(f"{value:.{digits}g}"))


def gflops(value: float) -> str:
    """Return a throughput in GFLOP/s for a tooltip."""
    return f"{rounded(value)} GFLOP/s"


def gb_per_s(value: float) -> str:
    """Return a bandwidth in GB/s for a tooltip."""
    return f"{rounded(value)} GB/s"


def seconds(value: float) -> str:
    """Return a time in seconds for a tooltip: 6.37 ms."""
    return plain_time(float(f"{value:.4g}"))


def times(value: float, digits: int = 4) -> str:
    """Return a ratio for a tooltip: 14.17×."""
    return f"{rounded(value, digits)}×"


def speedup(value: float) -> str:
    """Return a speedup for a tooltip; without an interval, `tooltip` uses `about` instead."""
    return times(value)


def about(value: float) -> str:
    """Return a speedup without an interval as an order of magnitude: about 8000×."""
    return f"about {times(order_of_magnitude(value))}"


def looks_of(devices: Devices, by: str = "short") -> dict[str, Look]:
    """Return the look of each GPU, the same in all figures, by the GPU's attribute `by`."""
    return gpu_looks(getattr(gpu, by) for gpu in devices.gpus)


def title(axis: Axes, text: str) -> None:
    """Set the title of a panel, broken into lines that fit the panel."""
    axis.set_title("\n".join(wrap(label(text), 24)))


def note(
    axis: Axes, text: str, at: tuple[float, float], shift: tuple[float, float], **how: Any
) -> Text:
    """Write `text` near a point of the data, shifted by `shift` points; no line crosses it."""
    box = {"facecolor": PAPER, "linewidth": 0, "pad": 0.8}
    usual: dict[str, Any] = {"fontsize": 8, "va": "center", "zorder": 5, "annotation_clip": False}
    how = usual | {"bbox": box} | how
    return axis.annotate(text, at, shift, textcoords="offset points", **how)


def name_ends(figure: Figure, axis: Axes, ends: pd.DataFrame, fontsize: float = 8) -> None:
    """Write the names of lines to the right of their ends, without overlaps.

    `ends` has the columns x, y, text and colour.
    """
    figure.draw_without_rendering()  # the positions of texts depend on the layout
    places = axis.transData.transform(ends[["x", "y"]].astype(float)) * 72 / figure.dpi
    reach = 8 + 0.6 * fontsize * ends["text"].str.len().max()
    across = np.unique(places[:, 0])
    column = np.cumsum(np.diff(across, prepend=across[0]) > reach)  # group of texts that may meet
    for _, same in ends.groupby(column[np.searchsorted(across, places[:, 0])]):
        heights = places[ends.index.get_indexer(same.index), 1]
        order = np.argsort(heights, kind="stable")
        steps = 1.25 * fontsize * np.arange(len(heights))
        moved = isotonic_regression(heights[order] - steps).x + steps
        for row, shift in zip(same.iloc[order].itertuples(), moved - heights[order], strict=True):
            how = {"color": row.colour, "fontsize": fontsize}
            note(axis, label(row.text), (row.x, row.y), (8, shift), **how)


def name_points(figure: Figure, axis: Axes, points: pd.DataFrame) -> None:
    """Write texts beside points where they hide no point and no other text; omit the others.

    `points` has the columns x, y and text; points with an empty text get none.
    """
    figure.draw_without_rendering()
    taken = [
        Bbox.from_bounds(x - 5, y - 5, 10, 10)
        for x, y in axis.transData.transform(points[["x", "y"]].astype(float))
    ]
    for row in points[points["text"] != ""].itertuples():
        for ha, va, shift in _BESIDE:
            text = note(axis, label(row.text), (row.x, row.y), shift, ha=ha, va=va)
            box = text.get_window_extent()
            inside = axis.bbox.xmin < box.xmin and box.xmax < axis.bbox.xmax
            if inside and not box.count_overlaps(taken):
                taken.append(box)
                break
            text.remove()


def binary_size(value: float) -> str:
    """Return a tick label for a size of at least one byte: 256 B, 4 KiB, 64 MiB."""
    exponent = min(3, int(np.log2(value)) // 10)
    return f"{value / 1024**exponent:.4g} {('B', 'KiB', 'MiB', 'GiB')[exponent]}"


def points(
    axis: Axes,
    frame: pd.DataFrame,
    x: str,
    y: tuple[str, str, str],
    look: Look,
    text: str | None = None,
    line: bool = True,
    names: Sequence[str] | None = None,
    tell: Callable[[float], str] = rounded,
) -> None:
    """Draw the points of `frame` with their intervals; rows without a value are dropped.

    `y` names the columns of value, low and high. A value without an interval is a hollow marker. A
    tooltip shows the name of a point, its value and its interval, formatted by `tell`. `names` has
    one name per row; the default is the series name `text` and the value of `x`.
    """
    value = frame[y[0]].to_numpy(dtype=float)
    has_value = np.isfinite(value)
    value, low, high = (frame[name].to_numpy(dtype=float)[has_value] for name in y)
    place = frame[x].to_numpy(dtype=float)[has_value]
    if names is None:
        names = [f"{label(text)}, {plain_number(at)}" if text else plain_number(at) for at in place]
    else:
        names = [name for name, shown in zip(names, has_value, strict=True) if shown]
    texts = [tooltip(*each, tell) for each in zip(names, value, low, high, strict=True)]
    if line and len(place) > 1:
        axis.plot(place, value, look.line, color=look.colour, linewidth=1.1, zorder=2)
    bounded = np.isfinite(low) & np.isfinite(high)
    across = (place[bounded], place[bounded])
    segments(axis, across, (low[bounded], high[bounded]), look.colour)
    marks(axis, place, value, ~bounded, look, texts)
    key(axis, look if line else replace(look, line="none"), text)


def marks(
    axis: Axes,
    x: FloatArray,
    y: FloatArray,
    hollow: npt.NDArray[np.bool_],
    look: Look,
    texts: Sequence[str],
    size: float = 26,
    widths: tuple[float, float] = (0, 1.0),
) -> None:
    """Draw points with tooltips, some hollow; `widths` are the rims of filled and hollow ones."""
    how: dict[str, Any] = {"marker": look.marker, "s": size, "zorder": 3}
    for chosen, face, width in ((~hollow, look.colour, widths[0]), (hollow, "none", widths[1])):
        if chosen.any():
            how |= {"facecolors": face, "edgecolors": look.colour, "linewidths": width}
            drawn = axis.scatter(x[chosen], y[chosen], **how)
            hover(drawn, [text for text, is_shown in zip(texts, chosen, strict=True) if is_shown])


def key(axis: Axes, look: Look, text: str | None) -> None:
    """Add a series to the legend."""
    how: dict[str, Any] = {"marker": look.marker, "linestyle": look.line, "markeredgewidth": 0}
    name = None if text is None else label(text)
    axis.plot([], [], color=look.colour, markersize=26**0.5, label=name, **how)


def cell_names(cells: pd.DataFrame) -> list[str]:
    """Return the name of each cell for tooltips: kernel, block size if any, and matrix size."""
    blocks = ("" if pd.isna(size) else f", B = {tiles.shown(size)}" for size in cells["block_size"])
    named = zip(cells["variant"], blocks, cells["n"], strict=True)
    return [f"{variant}{block}, N = {plain_number(n)}" for variant, block, n in named]


def with_rates(cells: pd.DataFrame, quantity: str) -> pd.DataFrame:
    """Return `cells` with columns rate, rate_low, rate_high in GFLOP/s, from their times.

    `quantity` is "total" or "kernel". Rows without this time are dropped. The upper bound of the
    time gives the lower bound of the throughput.
    """
    cells = cells[cells[f"{quantity}_s"].notna()]
    work = 2e-9 * cells[["batch", "m", "n", "k"]].astype(float).prod(axis=1)
    return cells.assign(
        rate=work / cells[f"{quantity}_s"],
        rate_low=work / cells[f"{quantity}_high_s"],
        rate_high=work / cells[f"{quantity}_low_s"],
    )


def segments(axis: Axes, x: Sequence[Any], y: Sequence[Any], colour: str, **how: Any) -> None:
    """Draw intervals as lines from (x[0], y[0]) to (x[1], y[1]), all in one path."""
    apart = np.full(len(x[0]), np.nan)
    ends = (np.column_stack([first, last, apart]).ravel() for first, last in (x, y))
    line: dict[str, Any] = {"linewidth": 1.6, "solid_capstyle": "butt"} | how
    axis.plot(*ends, color=colour, **line)


def tooltip(
    name: str, value: float, low: float, high: float, tell: Callable[[float], str] = rounded
) -> str:
    """Return the tooltip of a mark: its name, value and, if known, interval."""
    shown = tell(value)
    if not (np.isfinite(low) and np.isfinite(high)):
        return f"{name}: {about(value) if tell is speedup else shown}"
    unit = shown.lstrip("−0123456789.\u202f")  # shown once, after the value
    bounds = [tell(bound).removesuffix(unit) for bound in (low, high)]
    return f"{name}: {shown} ({' to '.join(bounds)})"
