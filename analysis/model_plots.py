"""The drawings of the models: gains over B, errors by B and by N, kernels never fitted."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import style
from analysis.models.definitions import HELD_OUT, m0_eta
from analysis.plots import legend
from analysis.svg import INK, label

_GAIN = ("gain", "gain_low", "gain_high")


def gains(cells: pd.DataFrame, rho: pd.Series, best: str) -> Figure:
    """Draw measured gains of `block` over B, M0's curve with the interval of ρ, the best model's.

    `cells` are gains (n, block_size, gain with bounds, predicted_gain by the model `best`, role);
    `rho` has value, value_low, value_high.
    """
    figure, (axis,) = style.new_figure(height=4.0)
    looks = style.size_looks(cells["n"])
    block = np.geomspace(1, max(cells["block_size"].max(), 32), 100)
    axis.plot(block, m0_eta(rho["value"], block), color=INK, linewidth=1.4, label="M0")
    if not np.isnan([rho["value_low"], rho["value_high"]]).any():
        low, high = m0_eta(rho["value_low"], block), m0_eta(rho["value_high"], block)
        shade: dict[str, Any] = {"color": INK, "alpha": 0.15, "linewidth": 0}
        axis.fill_between(block, low, high, label="interval of ρ", **shade)
    for n, group in cells.groupby("n"):
        held = " (held out)" if (group["role"] == HELD_OUT).all() else ""
        group = group.sort_values("block_size")
        text = f"N = {style.plain_number(n)}{held}"
        style.points(axis, group, "block_size", _GAIN, looks[n], text, line=False)
        axis.plot(group["block_size"], group["predicted_gain"], ":", color=looks[n].colour, lw=1.1)
    axis.plot([], [], ":", color=INK, lw=1.1, label=best)
    axis.set_xlabel("block size B (logarithmic)")
    axis.set_ylabel("gain over naive (logarithmic)")
    axis.set_ylim(bottom=cells["gain"].min() / 2)
    style.log_axis(axis, "y")
    style.ticks_at(axis, (int(value) for value in cells["block_size"]))
    legend(figure, axis)
    return figure


def errors(cells: pd.DataFrame, models: list[str]) -> Figure:
    """Draw the factor by which models miss each cell, by B and by N, a row of panels a model.

    `cells` are rows of model_predictions.csv of one set of kernels. Kernels without a block size
    stand at the left of the panels by B.
    """
    figure, axes = style.new_figure(2, len(models), height=3.0 * len(models))
    looks = style.looks((False, name) for name in cells["variant"])
    for row, model in enumerate(models):
        own = cells[cells["model"] == model]
        own = own.assign(
            factor=np.exp(own["log_residual"]), block=own["block_size"].fillna(_NO_BLOCK)
        )
        for axis, column in zip(axes[2 * row : 2 * row + 2], ("block", "n"), strict=True):
            axis.axhline(1, color=INK, linewidth=1)
            for name, group in own.groupby("variant"):
                look = looks[(False, str(name))]
                marks: dict[str, Any] = {"marker": look.marker, "color": look.colour, "s": 20}
                axis.scatter(
                    group[column], group["factor"], linewidths=0, label=label(name), **marks
                )
            _name_axes(axis, model, own, column)
        axes[2 * row].set_ylabel("predicted / measured time")
    legend(figure, axes[0], below=True)
    return figure


_NO_BLOCK = 0.5


def _name_axes(axis: Axes, model: str, cells: pd.DataFrame, column: str) -> None:
    by = "block size B" if column == "block" else "matrix order N"
    axis.set_title(f"{model}, by {by[-1]}")
    axis.set_xlabel(f"{by} (logarithmic)")
    _factors(axis)
    style.ticks_at(axis, (int(value) for value in cells[column] if value >= 1))
    if (cells[column] == _NO_BLOCK).any():
        places = sorted(set(cells[column]))
        axis.set_xticks(places, ["none" if p == _NO_BLOCK else f"{p:.0f}" for p in places])


def _factors(axis: Axes) -> None:
    """Make the y axis logarithmic, with ticks that fit factors near 1 as well as far from it."""
    style.log_axis(axis, "y")
    low, high = axis.get_ylim()
    if high / low < _NEAR:
        ticks = [tick for tick in _FINE if low <= tick <= high]
        axis.set_yticks(ticks, [style.plain_number(tick) for tick in ticks])


_NEAR = 4.0  # times the lowest is the highest of factors that are near each other
_FINE = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.6, 1.8, 2.0)


def unseen(cells: pd.DataFrame) -> Figure:
    """Draw the factor by which a model misses kernels that took no part in its fit.

    `cells` are those rows of model_predictions.csv; one line a variant, one colour an order.
    """
    variants = list(dict.fromkeys(cells["variant"]))
    places = {name: place for place, name in enumerate(reversed(variants))}
    figure, (axis,) = style.new_figure(width=6.4, height=1.4 + 0.28 * len(variants))
    looks = style.size_looks(cells["n"])
    axis.axvline(1, color=INK, linewidth=1)
    for n, group in cells.groupby("n"):
        look = looks[n]
        axis.scatter(
            np.exp(group["log_residual"]),
            [places[name] for name in group["variant"]],
            marker=look.marker,
            color=look.colour,
            s=20,
            linewidths=0,
            label=f"N = {style.plain_number(n)}",
        )
    axis.set_yticks(list(places.values()), [label(name) for name in places])
    axis.set_xlabel("predicted / measured time (logarithmic)")
    style.log_axis(axis, "x")
    legend(figure, axis)
    return figure
