"""The figures of the models: speedups by block size, and errors by model and by kernel."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.data.devices import Device, Devices
from analysis.data.store import Store
from analysis.domain import PUBLISHED
from analysis.drawing import palette, rows, style
from analysis.drawing.style import plain_number, rounded
from analysis.drawing.svg import INK, hover
from analysis.models import definitions
from analysis.models.comparison import BEST
from kernels.catalog.entries import VARIANTS

_M0 = "M0"
_SPEEDUP = ("speedup", "speedup_low", "speedup_high")
_FACTORS = (1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2, 4, 10, 30, 100, 1000)


@dataclass(frozen=True)
class Speedups:
    """A panel to draw: rows of `speedups_of`, and the ρ of M0 with its bounds."""

    title: str
    cells: pd.DataFrame
    rho: tuple[float, ...]


@dataclass(frozen=True)
class Series:
    """The rows of a table for one GPU, or for the published times, with name and look."""

    name: str
    rows: pd.DataFrame
    look: palette.Look


def model(store: Store, devices: Devices) -> Figure | None:
    """Draw the speedup of `block` over `naive` by block size, as measured and by two models.

    The models are M0, with the interval of ρ, and the best model.
    """
    compared = _of(store["model_comparison"], definitions.MODELLED_SET)
    predictions = _of(store["model_predictions"], definitions.MODELLED_SET)
    fitted = predictions[predictions["role"] == definitions.FITTED]
    parameters = _of(store["models"], definitions.MODELLED_SET)
    rho = parameters[(parameters["parameter"] == definitions.RHO) & (parameters["model"] == _M0)]
    drawn = []
    for source, name in _sources(style.panelled(devices.gpus)).items():
        best = _best(compared, source)
        part = rho[rho["source"] == source]
        cells = speedups_of(_of_model(fitted, source, best))
        if len(cells) and len(part):
            bounds = tuple(float(part[f"value{end}"].iloc[0]) for end in ("", "_low", "_high"))
            drawn.append(Speedups(f"{_titled(name, cells)}, {best}", cells, bounds))
    if not drawn:
        return None
    figure, axes = style.panels(len(drawn), columns=3, height=2.5)
    looks = palette.size_looks(n for panel in drawn for n in panel.cells["n"])
    blocks = sorted({int(size) for panel in drawn for size in panel.cells["block_size"]})
    gained = pd.concat([panel.cells["speedup"] for panel in drawn])
    for axis, panel in zip(axes, drawn, strict=True):
        _m0(axis, panel.rho, blocks[-1])
        axis.plot([], [], ":", color=INK, linewidth=1.1, label="best model, at each N")
        for n, part in panel.cells.sort_values("block_size").groupby("n"):
            names = [f"N = {plain_number(n)}, B = {size}" for size in part["block_size"]]
            look = looks[int(n)]
            style.points(axis, part, "block_size", _SPEEDUP, look, None, False, names, style.times)
            sizes = part["block_size"].to_numpy(dtype=float)
            axis.plot(sizes, part["predicted_speedup"], ":", color=look.colour, linewidth=1.1)
        style.title(axis, panel.title)
        axis.set_xlabel("block size B")
        axis.set_ylim(gained.min() / 2, gained.max() * 2)
        style.log_axis(axis, "y")
        style.ticks_at(axis, blocks)
    for n, look in looks.items():
        style.key(axes[0], replace(look, line="none"), f"N = {plain_number(n)}")
    for axis in axes[::3]:
        axis.set_ylabel("speedup of block over naive")
    style.legend(figure, axes)
    return figure


def _m0(axis: Axes, rho: tuple[float, ...], largest: int) -> None:
    value, low, high = rho
    block = np.geomspace(1, max(largest, 2), 25)
    axis.plot(block, definitions.m0_eta(value, block), color=INK, linewidth=1.4, label="M0")
    if not np.isnan([low, high]).any():
        shade: dict[str, Any] = {"color": INK, "alpha": 0.15, "linewidth": 0}
        ends = (definitions.m0_eta(low, block), definitions.m0_eta(high, block))
        axis.fill_between(block, *ends, label="M0, interval of ρ", **shade)


def speedups_of(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the speedups of `block` over `naive` at the same size, measured and predicted.

    `cells` are rows of model_predictions.csv of one model. Columns: machine, n, block_size,
    speedup, speedup_low and speedup_high (from the bounds of both medians), predicted_speedup.
    """
    names = ["time_s", "time_low_s", "time_high_s", "predicted_s"]
    naive = cells[cells["variant"] == "naive"].set_index("n")[names]
    block = cells[(cells["variant"] == "block") & cells["block_size"].notna()]
    pairs = block.join(naive.add_suffix("_naive"), on="n", how="inner")
    return pairs.assign(
        speedup=pairs["time_s_naive"] / pairs["time_s"],
        speedup_low=pairs["time_low_s_naive"] / pairs["time_high_s"],
        speedup_high=pairs["time_high_s_naive"] / pairs["time_low_s"],
        predicted_speedup=pairs["predicted_s_naive"] / pairs["predicted_s"],
    )


def errors(store: Store, devices: Devices) -> Figure | None:
    """Draw the error of each model at left-out sizes as a factor, on every GPU.

    There is one row per model. The scale is logarithmic in the logarithm of the factor.
    """
    compared = _of(store["model_comparison"], definitions.MODELLED_SET)
    compared = compared[compared["left_out_log_rms"].notna()]
    gpus = _sources(devices.gpus[: style.MOST_COLOURS])
    measured = style.looks_of(devices, "label")
    looks = {PUBLISHED: palette.Look(palette.GREY, "d", "-"), **measured}
    series = [
        Series(_titled(name, selected), selected, looks[source])
        for source, name in gpus.items()
        if len(selected := compared[compared["source"] == source])
    ]
    if not series:
        return None
    present = {name for one in series for name in one.rows["model"]}
    shown = [name for name in definitions.MODELS if name in present]
    position = {name: at for at, name in enumerate(shown)}
    height = 1.3 + len(shown) * max(0.43, 0.07 * len(series))
    figure, (axis,) = style.new_figure(height=height)
    columns = ("left_out_log_rms", "left_out_log_rms_low", "left_out_log_rms_high")
    for number, one in enumerate(series):
        y = [position[name] + rows.offset(number, len(series)) for name in one.rows["model"]]
        names = [f"{one.name}, {name}" for name in one.rows["model"]]
        rows.dots(axis, one.rows, columns, y, one.look, names, tell=_factor)
        rows.key(axis, one.look, one.name)
    rows.name_rows(axis, [f"{name}: {definitions.MODELS[name].adds}" for name in shown])
    axis.set_xscale("log")
    low, high = axis.get_xlim()
    ticks = [tick for tick in _FACTORS if low <= np.log(tick) <= high]
    axis.set_xticks(np.log(ticks), [f"{plain_number(tick)}×" for tick in ticks])
    axis.set_xticks([], minor=True)
    axis.set_xlabel("typical error, as a factor\n(smaller is better)")
    style.legend(figure, [axis])
    return figure


def _factor(log_rms: float) -> str:
    return f"{plain_number(float(f'{np.exp(log_rms):.3g}'))}×"


def unseen(store: Store, devices: Devices) -> Figure | None:
    """Draw the best model's predictions of held-out sizes and of kernels never fitted.

    There is one row per kernel and a panel per role. A line spans all cells of a kernel on a GPU,
    its dot is the median. Cells outside their 95 % prediction interval show the interval.
    """
    compared = _of(store["model_comparison"], definitions.ALL_SET)
    predictions = _of(store["model_predictions"], definitions.ALL_SET)
    predictions = predictions[predictions["role"].isin((definitions.HELD_OUT, definitions.UNSEEN))]
    gpus = {gpu.label: gpu.short for gpu in devices.gpus[: style.MOST_COLOURS]}
    looks = style.looks_of(devices, "label")
    series = [
        Series(name, selected, looks[source])
        for source, name in gpus.items()
        if len(selected := _of_model(predictions, source, _best(compared, source)))
    ]
    titles = {definitions.HELD_OUT: "held-out sizes"}
    titles[definitions.UNSEEN] = "kernels excluded from every fit"
    if not series:
        return None
    every = pd.concat([one.rows for one in series]).groupby("role")["variant"].unique()
    kernels = {role: sorted(every.get(role, ()), key=_in_catalog) for role in titles}
    kernels = {role: names for role, names in kernels.items() if names}
    counts = [len(names) for names in kernels.values()]
    step = max(0.22, 0.055 * len(series))
    figure = style.new_figure(0, 0, height=1.1 + 0.45 * len(counts) + step * sum(counts))[0]
    axes = figure.subplots(len(counts), sharex=True, height_ratios=counts, squeeze=False)[:, 0]
    for axis, (role, names) in zip(axes, kernels.items(), strict=True):
        axis.axvline(1, color=INK, linewidth=1)
        for number, one in enumerate(series):
            selected = one.rows[one.rows["role"] == role]
            below = rows.offset(number, len(series))
            _predicted(axis, selected.assign(y=selected["variant"].map(names.index) + below), one)
            rows.key(axis, one.look, one.name)
        rows.name_rows(axis, names)
        axis.set_title(titles[role])
    axes[-1].set_xlabel("predicted / measured time")
    style.factor_axis(axes[-1], "x")
    how: dict[str, Any] = {"linestyle": "none", "color": INK, "markersize": 26**0.5}
    axes[0].plot([], [], "o", label="median", markeredgewidth=0, **how)
    axes[0].plot([], [], "o", label="outside its prediction interval", mfc="none", **how)
    axes[0].plot([], [], color=INK, alpha=0.25, linewidth=5, label="95 % prediction interval")
    style.legend(figure, list(axes))
    return figure


def _in_catalog(kernel: str) -> int:
    return list(VARIANTS).index(kernel) if kernel in VARIANTS else len(VARIANTS)


def _predicted(axis: Axes, cells: pd.DataFrame, one: Series) -> None:
    """Draw the cells of one GPU; the column y of `cells` is the height of their kernel's row."""
    measured = cells["time_s"]
    cells = cells.assign(
        factor=cells["predicted_s"] / measured,
        low=cells["predicted_low_s"] / measured,
        high=cells["predicted_high_s"] / measured,
    )
    colour = one.look.colour
    how: dict[str, Any] = {"edgecolors": colour, "marker": one.look.marker, "zorder": 3}
    outside = cells[~cells["in_interval"].fillna(True)]
    if len(outside):
        x, y = (outside["low"], outside["high"]), (outside["y"], outside["y"])
        style.segments(axis, x, y, colour, alpha=0.25, linewidth=4)
        drawn = axis.scatter(outside["factor"], outside["y"], s=16, facecolors="none", **how)
        values = outside[["factor", "low", "high"]].to_numpy()
        named = zip(style.cell_names(outside), values, strict=True)
        hover(drawn, [style.tooltip(f"{one.name}, {name}", *each) for name, each in named])
    spans = cells.groupby("variant")["factor"].agg(["count", "median", "min", "max"])
    if len(spans):
        y = cells.groupby("variant")["y"].first()
        style.segments(axis, (spans["min"], spans["max"]), (y, y), colour)
        middle = axis.scatter(spans["median"], y, s=20, facecolors=colour, linewidths=0, **how)
        texts = [
            f"{one.name}, {name}: {count} cells, median {rounded(median)}, {rounded(low)} to "
            f"{rounded(high)}"
            for name, count, median, low, high in spans.itertuples()
        ]
        hover(middle, texts)


def _of(frame: pd.DataFrame, kernels: str) -> pd.DataFrame:
    return frame[frame["kernels"] == kernels]


def _of_model(predictions: pd.DataFrame, source: str, model: str) -> pd.DataFrame:
    return predictions[(predictions["source"] == source) & (predictions["model"] == model)]


def _best(compared: pd.DataFrame, source: str) -> str:
    best = compared[(compared["source"] == source) & (compared["verdict"] == BEST)]
    return str(best["model"].iloc[0]) if len(best) else _M0


def _sources(gpus: Sequence[Device]) -> dict[str, str]:
    return {PUBLISHED: PUBLISHED, **{gpu.label: gpu.short for gpu in gpus}}


def _titled(name: str, rows: pd.DataFrame) -> str:
    """Return the name of a source; for the published times, with the name of their GPU."""
    gpu = str(rows["machine"].iloc[0]).split(" + ")[-1]
    return f"{name}, {gpu}" if name == PUBLISHED else name


FIGURES = style.named(model, errors, unseen)
