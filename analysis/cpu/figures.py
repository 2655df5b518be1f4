"""The figures of the CPU. Throughput is in FLOP/s in tables and in GFLOP/s in figures."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.cpu.split import GPU, WHOLE
from analysis.data.best import fastest
from analysis.data.cells import of_sizes
from analysis.data.devices import Device, Devices
from analysis.data.store import Store
from analysis.domain import CPU, HOST_MEMORY_ORDER, PUBLISHED
from analysis.drawing import palette, style
from analysis.drawing.style import RATE, plain_number, with_rates
from analysis.drawing.svg import INK, hover, label
from analysis.stats.rounding import order_of_magnitude

_ROOM = 1.35  # a part with a smaller factor is too narrow for its number
_PINNED = "pinned"  # the part after GPU: the further speedup with pinned memory


@dataclass(frozen=True)
class Host:
    """The CPU of a host: its name, throughput rows, and FMA ceiling in FLOP/s by thread count."""

    name: str
    rows: pd.DataFrame
    peaks: Mapping[int, float]


@dataclass(frozen=True)
class Whole:
    """A speedup to draw: its two lines of text, and its parts in sequence, as in cpu_split.csv.

    The column `rough` marks parts with too few runs for an interval.
    """

    name: str
    at: str
    parts: pd.DataFrame


def cpu_split(store: Store, devices: Devices) -> Figure | None:
    """Draw the parts of the speedup over the naive CPU loop, published and on each GPU.

    Each speedup is one bar on a logarithmic axis. Each part of it starts where the previous one
    ends; a step that made the program slower is a thinner bar that goes back.
    """
    frame = store["cpu_split"]
    frame = frame[(frame["start"] == "naive") & (frame["part"] != WHOLE)]
    frame = frame.assign(rough=frame["factor_low"].isna() & (frame["recording"] != PUBLISHED))
    gpus = devices.gpus[: style.MOST_COLOURS]
    candidates = [_whole(gpu.short, frame[frame["gpu"] == gpu.label]) for gpu in gpus]
    measured = [whole for whole in candidates if whole]
    published = _whole(PUBLISHED, frame[frame["recording"] == PUBLISHED])
    if not measured:
        return None
    wholes = [*([published] if published else []), *measured]
    figure, (axis,) = style.new_figure(height=1.3 + 0.5 * len(wholes))
    axis.set_xscale("log")
    ends = [_bar(axis, height, whole) for height, whole in enumerate(wholes)]
    shown = {part for whole in wholes for part in whole.parts["part"]}
    for part, (text, colour, hatch) in palette.SPLIT.items():
        if part in shown:
            axis.bar([1], [0], color=colour, hatch=hatch, linewidth=0, label=text)
    texts = [f"{label(whole.name)}\n{label(whole.at)}" for whole in wholes]
    axis.set_yticks(range(len(wholes)), texts)
    axis.set_ylim(len(wholes) - 0.5, -0.6)
    axis.grid(visible=False, axis="y")
    axis.tick_params(axis="y", length=0)
    axis.set_xlim(min(1.0, *(low for low, _ in ends)), max(high for _, high in ends) * 3)
    axis.set_xlabel("speedup over the naive loop on one thread")
    style.log_axis(axis, "x")
    style.legend(figure, [axis])
    return figure


def _whole(name: str, rows: pd.DataFrame) -> Whole | None:
    """Return the parts of one speedup; if pinned memory is faster, it adds a part."""
    kinds = {kind: parts for kind, parts in rows.groupby("host_memory", dropna=False) if len(parts)}
    if not kinds:
        return None
    rank = {kind: number for number, kind in enumerate(HOST_MEMORY_ORDER)}
    first, *others = sorted(kinds, key=lambda kind: rank.get(kind, len(rank)))
    parts = kinds[first]
    n = f"N = {style.plain_number(int(parts['n'].iloc[0]))}"
    if not others:
        return Whole(name, n if pd.isna(first) else f"{n}, {first}", parts)
    best, plain = (kinds[kind].set_index("part").loc[GPU] for kind in (others[0], first))
    factor = float(best["factor"] / plain["factor"])
    if factor > 1:
        more = {"part": _PINNED, "factor": factor, "variant": best["variant"], "rough": False}
        parts = pd.concat([parts, pd.DataFrame([more])], ignore_index=True)
    return Whole(name, n, parts)


def cpu_rate(store: Store, devices: Devices) -> Figure | None:
    """Draw the throughput of each CPU variant by size, and the FMA ceiling, on every host.

    Each host has one panel. Each variant has its fastest block size on one thread and, at each
    size, its fastest combination of several threads and block size.
    """
    cells = of_sizes(store["summary"])
    cells = with_rates(cells[cells["device"] == CPU], "total")
    hosts = list(_hosts(cells, style.panelled(_by_focus(devices)), store["ceilings"]))
    if not hosts:
        return None
    figure, axes = style.panels(len(hosts), columns=3, height=3.2)
    several = False
    for axis, host in zip(axes, hosts, strict=True):
        rows = host.rows.assign(shared=host.rows["threads"] > 1)
        best = fastest(rows, "total_s", ["variant", "shared", "n"])
        for (name, shared), curve in best.groupby(["variant", "shared"]):
            several |= shared
            look = _line(palette.CPU[str(name)], 1 + shared)
            curve = curve.sort_values("n")
            names = [
                f"{name}, {_threads(threads)}, N = {plain_number(n)}"
                for threads, n in zip(curve["threads"], curve["n"], strict=True)
            ]
            style.points(axis, curve, "n", RATE, look, None, names=names, tell=style.gflops)
        for threads in sorted({1, max(rows["threads"])}):
            _peak(axis, host.peaks, threads)
        style.title(axis, host.name)
        axis.set_xlabel("matrix size N")
        style.log_axis(axis, "y")
        style.ticks_at(axis, (int(n) for n in best["n"]))
    shown = {str(name) for host in hosts for name in host.rows["variant"]}
    for name in [name for name in palette.CPU if name in shown]:
        style.key(axes[0], replace(palette.CPU[name], line="none"), name)
    for threads, text in ((1, "one thread"), (2, "several threads")) if several else ():
        line = _line(palette.Look(INK, "", "-"), threads).line
        axes[0].plot([], [], line, color=INK, linewidth=1.1, label=text)
    style.same_y(axes)
    for axis in axes[::3]:
        axis.set_ylabel("throughput in GFLOP/s")
    style.legend(figure, axes)
    return figure


def _by_focus(devices: Devices) -> list[Device]:
    focus = devices.focus.recording if devices.focus else None
    return sorted(devices.hosts, key=lambda host: host.recording != focus)


def _hosts(
    cells: pd.DataFrame, devices: Sequence[Device], ceilings: pd.DataFrame
) -> Iterator[Host]:
    peaks = ceilings[(ceilings["device"] == CPU) & (ceilings["quantity"] == "fp32_flop_per_s")]
    for device in devices:
        rows = cells[cells["recording"] == device.recording]
        if len(rows):
            of_host = peaks[peaks["recording"] == device.recording].set_index("threads")
            yield Host(device.host, rows, of_host["value"].to_dict())


def _bar(axis: Axes, height: int, whole: Whole) -> tuple[float, float]:
    """Draw the bar of one speedup; return the least and the largest value that its parts reach."""
    reached = [1.0]
    for part in whole.parts.to_dict("records"):
        factor = float(part["factor"])
        reached.append(reached[-1] * factor)
        start, end = sorted(reached[-2:])
        text, colour, hatch = palette.SPLIT[str(part["part"])]
        look: dict[str, Any] = {"color": colour, "hatch": hatch, "linewidth": 0}
        (bar,) = axis.barh(height, end - start, 0.5 if factor >= 1 else 0.25, start, **look)
        tell = style.speedup if part["rough"] else style.times
        variant = "" if pd.isna(part["variant"]) else f" ({part['variant']})"
        low, high = (float(part[f"factor_{bound}"]) for bound in ("low", "high"))
        hover(bar, [style.tooltip(f"{whole.name}, {text}{variant}", factor, low, high, tell)])
        if end / start > _ROOM:
            middle = (float(np.sqrt(start * end)), height - 0.27)
            text = _short(factor, part["rough"])
            axis.annotate(text, middle, ha="center", va="bottom", fontsize=8)
    text = _short(reached[-1], whole.parts["rough"].any())
    style.note(axis, text, (max(reached), height), (5, 0), fontsize=9, fontweight="bold")
    return min(reached), max(reached)


def _short(factor: float, rough: bool) -> str:
    if rough:
        return f"≈ {plain_number(order_of_magnitude(factor))}×"
    return f"{plain_number(float(f'{factor:.2g}' if factor < 100 else f'{factor:.3g}'))}×"


def _line(look: palette.Look, threads: int) -> palette.Look:
    return replace(look, line="-." if threads > 1 else "-")


def _threads(threads: int) -> str:
    return "one thread" if threads == 1 else f"{threads} threads"


def _peak(axis: Axes, peaks: Mapping[int, float], threads: int) -> None:
    if threads in peaks:
        peak = peaks[threads] / 1e9
        line = _line(palette.Look(INK, "", "-"), threads).line
        drawn = axis.axhline(peak, color=INK, linewidth=1.2, linestyle=line)
        hover(drawn, [f"FMAs, {_threads(threads)}: {style.gflops(peak)}"])


FIGURES = style.named(cpu_split, cpu_rate)
