"""The figure of the first screen: the time of one product over N, on the card and on the CPU."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from analysis import style
from analysis.answers import GAIN_COLUMN
from analysis.drawings import INTERVALS, Drawing, samples_text
from analysis.headline import fastest_gains
from analysis.results import HOST_MEMORY_ORDER, TIMES, Results, Subject
from analysis.svg import INK, label

_TIME = ("total_s", "total_low_s", "total_high_s")
_LOOKS = {
    "pinned": style.Look("#1f7ec2", "s", "-"),
    "pageable": style.Look("#d55e00", "o", "-"),
}
_CPU_ONE = style.Look("#8a6fd1", "<", "--")
_CPU_ALL = style.Look(INK, "^", "--")
_CPU_NAIVE = style.Look(style.GREY, "v", "--")


@dataclass(frozen=True)
class Line:
    """A line of the figure: what it says at its end, how it looks, and its rows of summary.csv."""

    text: str
    look: style.Look
    rows: pd.DataFrame


@dataclass(frozen=True)
class Gap:
    """The gain that the figure shows: at which order, between which times, and in words."""

    n: int
    low_s: float
    high_s: float
    text: str


def of_headline(
    results: Results, subject: Subject, name: str, rows: pd.DataFrame
) -> Iterator[Drawing]:
    """Yield the figure of a card and its host's CPU, or of a CPU alone.

    `rows` are its rows of summary.csv at the study's orders, with `is_cpu`; `name` is its anchor.
    """
    rows = rows[rows["total_s"].notna()]
    lines = list(_lines(rows))
    if not lines:
        return
    shown = pd.concat([line.rows for line in lines])
    title = f"Time of one product over its order, copies included: {subject.marked_title}"
    caption = (
        "At each order the fastest way that was measured, from each kind of host memory, and the "
        f"CPU of the host ({subject.cpu_model}). {INTERVALS} {samples_text(shown)}"
    )
    drawn = time_over_size(lines, _gap(results, subject, rows))
    yield Drawing(f"headline-{name}", "headline", subject.label, title, caption, drawn)


def _lines(rows: pd.DataFrame) -> Iterator[Line]:
    """Yield the lines that there are, those of the CPU first."""
    cpu, gpu = rows[rows["is_cpu"]], rows[~rows["is_cpu"]]
    shared = cpu["threads"] > 1
    groups = {
        "CPU, naive loop": (_CPU_NAIVE, cpu[(cpu["variant"] == "naive") & ~shared]),
        "CPU, one core": (_CPU_ONE, cpu[~shared]),
        "CPU, all cores": (_CPU_ALL, cpu[shared]),
    }
    for memory in HOST_MEMORY_ORDER:
        groups[f"GPU, {memory} memory"] = (_LOOKS[memory], gpu[gpu["host_memory"] == memory])
    for text, (look, cells) in groups.items():
        if not cells.empty:
            fastest = cells.loc[cells.groupby("n")["total_s"].idxmin()]
            yield Line(text, look, fastest.sort_values("n"))


def _gap(results: Results, subject: Subject, rows: pd.DataFrame) -> Gap | None:
    """Return the gain over the CPU that the first screen states, if there is one."""
    fastest = fastest_gains(results, subject)
    if fastest.empty:
        return None
    row = int(fastest.index[-1])
    n = int(fastest.at[row, "n"])
    gpu_s, cpu_s = (
        float(rows.loc[(rows["n"] == n) & (rows["is_cpu"] == side), "total_s"].min())
        for side in (False, True)
    )
    low_s, high_s = sorted((gpu_s, cpu_s))
    return Gap(n, low_s, high_s, str(results.cell("gains", row, GAIN_COLUMN, TIMES)))


def time_over_size(lines: list[Line], gap: Gap | None) -> Figure:
    """Draw the times over N; each line says at its right end what it is."""
    figure, (axis,) = style.new_figure(width=12.0, height=3.8)
    for line in lines:
        style.points(axis, line.rows, "n", _TIME, line.look)
        _name_at_the_end(axis, line)
    if gap:
        _mark(axis, gap)
    axis.set_xlabel("matrix order N (logarithmic)")
    axis.set_ylabel("time of one product (logarithmic)")
    style.log_axis(axis, "y")
    axis.yaxis.set_major_formatter(FuncFormatter(style.plain_time))
    style.ticks_at(axis, (int(n) for line in lines for n in line.rows["n"]))
    axis.tick_params(axis="x", labelrotation=0)
    return figure


def _mark(axis: Axes, gap: Gap) -> None:
    """Draw an arrow between the two times of a gain, and write the gain below it."""
    arrow: dict[str, Any] = {"arrowstyle": "<->", "color": INK, "shrinkA": 5, "shrinkB": 5}
    ends = {"xy": (gap.n, gap.low_s), "xytext": (gap.n, gap.high_s)}
    axis.annotate("", ends["xy"], ends["xytext"], arrowprops=arrow)
    below: dict[str, Any] = {"xytext": (0, -8), "textcoords": "offset points", "ha": "center"}
    axis.annotate(gap.text, ends["xy"], **below, va="top", fontsize=11, weight="bold")


def _name_at_the_end(axis: Axes, line: Line) -> None:
    """Write what a line is to the right of its last point."""
    last = line.rows.iloc[-1]
    axis.annotate(
        label(line.text),
        (float(last["n"]), float(last["total_s"])),
        xytext=(8, 0),
        textcoords="offset points",
        va="center",
        fontsize=10,
        annotation_clip=False,
    )
