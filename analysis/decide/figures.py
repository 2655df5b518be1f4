"""The figures of break-even sizes and copies."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from analysis.data.devices import Devices
from analysis.data.store import Store
from analysis.decide.break_even import ABOVE, BELOW, MEASURED, STUDY
from analysis.decide.predictors import Copies
from analysis.decide.transfer_tables import END_TO_END
from analysis.domain import HOST_MEMORY_ORDER
from analysis.drawing import palette, rows, style
from analysis.drawing.svg import INK, hover
from kernels.catalog.baselines import CPU_BASELINES

RowsByGpu = Mapping[str, pd.DataFrame]
DIRECTIONS = {"h2d": "to the GPU", "d2h": "to the host"}
_LINES = {"pinned": "-", "pageable": "--"}
_ENDS = ("high", "low")  # the upper bound of a time gives the lower throughput


def break_even(store: Store, devices: Devices) -> Figure | None:
    """Draw the break-even size of each GPU, copies included, over each CPU baseline.

    There is one panel per kind of host memory. An arrow points out of the measured range if the
    break-even size is outside it.
    """
    frame = store["break_even"]
    frame = frame[(frame["kernels"] == STUDY) & frame["cpu_baseline"].isin(CPU_BASELINES)]
    by_gpu = _by_gpu(frame, devices)
    if not by_gpu:
        return None
    memories = _memories(by_gpu)
    every = pd.concat(list(by_gpu.values()))
    shown = [name for name in CPU_BASELINES if (every["cpu_baseline"] == name).any()]
    low, high = every["least_n"].min() / 1.2, every["largest_n"].max() * 1.2
    step = max(0.34, 0.1 * len(by_gpu))
    figure, axes = style.new_figure(len(memories), height=1.4 + step * len(shown))
    looks = style.looks_of(devices)
    older = {gpu.short for gpu in devices.gpus if gpu.stale_sources}
    for axis, memory in zip(axes, memories, strict=True):
        for number, (gpu, of_gpu) in enumerate(by_gpu.items()):
            cells = of_gpu[of_gpu["host_memory"] == memory]
            y = cells["cpu_baseline"].map(shown.index) + rows.offset(number, len(by_gpu))
            names = [f"{gpu}, {memory}, {CPU_BASELINES[name]}" for name in cells["cpu_baseline"]]
            _crossings(axis, cells.assign(y=y, name=names), looks[gpu])
            rows.key(axis, looks[gpu], f"{gpu}, older programs" if gpu in older else gpu)
        names = [CPU_BASELINES[name] for name in shown]
        rows.name_rows(axis, names if axis is axes[0] else [""] * len(names))
        axis.set_title(f"{memory} memory")
        axis.set_xlabel("matrix size N")
        axis.set_xlim(low, high)
        style.log_axis(axis, "x", 2)
    style.legend(figure, axes)
    return figure


def _crossings(axis: Axes, cells: pd.DataFrame, look: palette.Look) -> None:
    """Draw the break-even sizes of one GPU; `cells` has the columns y (height) and name."""
    crossed = cells[cells["location"] == MEASURED]
    ends = [crossed["least_n"], crossed["largest_n"]]
    low, high = (crossed[f"n_{end}"].clip(*ends) for end in ("low", "high"))
    crossed = crossed.assign(n_low=low, n_high=high)
    names = ("n", "n_low", "n_high")
    rows.dots(axis, crossed, names, list(crossed["y"]), look, list(crossed["name"]))
    for location, end, marker in ((BELOW, "least_n", 8), (ABOVE, "largest_n", 9)):
        located = cells[cells["location"] == location]
        if len(located):
            how: dict[str, Any] = {"color": look.colour, "marker": marker}
            drawn = axis.scatter(located[end], located["y"], s=40, **how)
            sizes = zip(located["name"], located[end], strict=True)
            hover(drawn, [f"{name}: {location} {size}" for name, size in sizes])


def copies(store: Store, devices: Devices) -> Figure | None:
    """Draw the bandwidth of the copies in end-to-end runs by size, measured and fitted.

    There is one panel per direction. Hollow points are held out from the fit.
    """
    points, fits = store["transfer_points"], store["transfers"]
    points = points[(points["data"] == END_TO_END) & points["direction"].isin(DIRECTIONS)]
    fits = fits[fits["used"].fillna(False) & fits["direction"].isin(DIRECTIONS)]
    most = style.MOST_PANELS  # if there were more GPUs, points would hide each other
    by_gpu, fits_of = (_by_gpu(frame, devices, most) for frame in (points, fits))
    if not by_gpu:
        return None
    every = pd.concat(list(by_gpu.values()))
    directions = [direction for direction in DIRECTIONS if (every["direction"] == direction).any()]
    figure, axes = style.new_figure(len(directions), height=3.8)
    looks = style.looks_of(devices)
    for axis, direction in zip(axes, directions, strict=True):
        for gpu, part in by_gpu.items():
            look = looks[gpu]
            for memory, line in _LINES.items():
                cells = part[(part["direction"] == direction) & (part["host_memory"] == memory)]
                if len(cells):
                    _rates(axis, cells.sort_values("size_bytes"), f"{gpu}, {memory}", look)
                    _fitted(axis, cells, fits_of.get(gpu), line, look.colour)
            rows.key(axis, look, gpu)
        for memory, line in _LINES.items():
            axis.plot([], [], line, color=INK, linewidth=1.1, label=f"{memory}, fitted model")
        axis.set_title(DIRECTIONS[direction])
        axis.set_xlabel("bytes copied per run")
        axis.set_xscale("log", base=2)
        _byte_ticks(axis, every.loc[every["direction"] == direction, "size_bytes"])
    axes[0].set_ylabel("bandwidth in GB/s")
    for axis in axes:
        style.log_axis(axis, "y")
    style.same_y(axes)
    style.legend(figure, axes)
    return figure


def _rates(axis: Axes, cells: pd.DataFrame, name: str, look: palette.Look) -> None:
    size, time_s = (cells[each].to_numpy(dtype=float) for each in ("size_bytes", "copy_s"))
    held_out = cells["holdout"].fillna(False).to_numpy(dtype=bool)
    rate = size / time_s / 1e9
    low, high = (size / cells[f"copy_{end}_s"].to_numpy(dtype=float) / 1e9 for end in _ENDS)
    style.segments(axis, (size, size), (low, high), look.colour)
    texts = [
        style.tooltip(f"{name}, {style.binary_size(each[0])}", *each[1:], style.gb_per_s)
        for each in zip(size, rate, low, high, strict=True)
    ]
    style.marks(axis, size, rate, held_out, look, texts, 18, (0.8, 0.8))


def _fitted(
    axis: Axes, cells: pd.DataFrame, fits: pd.DataFrame | None, line: str, colour: str
) -> None:
    """Draw the fitted bandwidth over the sizes of `cells`."""
    if fits is None:
        return
    first = cells.iloc[0]
    span = np.geomspace(cells["size_bytes"].min(), cells["size_bytes"].max(), 24)
    same = (fits["direction"] == first["direction"]) & (fits["host_memory"] == first["host_memory"])
    for fit in fits[same].itertuples():
        bandwidth, knee, beyond = (
            np.inf if pd.isna(value) else value
            for value in (fit.bytes_per_s, fit.knee_bytes, fit.beyond_bytes_per_s)
        )
        model = Copies(fit.latency_s, bandwidth, knee, beyond)
        rate = span / model.time_s(int(first["copies"]), span) / 1e9
        axis.plot(span, rate, line, color=colour, linewidth=1)


def _byte_ticks(axis: Axes, sizes: pd.Series) -> None:
    """Draw at most six ticks on a size axis, at 1 MiB, 4 MiB and so on."""
    low, high = (float(np.log2(end)) for end in (sizes.min(), sizes.max()))
    exponents = [each for each in range(int(np.ceil(low)), int(high) + 1) if each % 2 == 0]
    exponents = exponents[:: max(1, -(-len(exponents) // 6))] or [round(low)]
    axis.set_xticks(
        [2.0**each for each in exponents], [style.binary_size(2.0**e) for e in exponents]
    )
    axis.xaxis.set_minor_locator(NullLocator())


def _by_gpu(frame: pd.DataFrame, devices: Devices, most: int = style.MOST_COLOURS) -> RowsByGpu:
    """Return the rows of each GPU that has rows, by its name, the GPU in focus first."""
    by_gpu = {gpu.short: frame[frame["gpu"] == gpu.label] for gpu in devices.gpus[:most]}
    return {name: rows for name, rows in by_gpu.items() if len(rows)}


def _memories(by_gpu: RowsByGpu) -> list[str]:
    kinds = {kind for rows in by_gpu.values() for kind in rows["host_memory"]}
    return [kind for kind in reversed(HOST_MEMORY_ORDER) if kind in kinds]


FIGURES = style.named(break_even, copies)
