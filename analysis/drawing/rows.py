"""Dot plots: values with horizontal intervals, one row per item, several series per row."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from textwrap import wrap

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis.drawing import style
from analysis.drawing.palette import Look
from analysis.drawing.style import marks, rounded, segments, tooltip
from analysis.drawing.svg import label


def name_rows(axis: Axes, names: Sequence[str]) -> None:
    """Label the rows; the first row, at y = 0, is at the top."""
    lines = [wrap(name, 25, break_long_words=False) for name in names]
    axis.set_yticks(range(len(names)), ["\n".join(map(label, each)) for each in lines])
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.grid(visible=False, axis="y")
    axis.tick_params(axis="y", length=0)


def offset(series: int, count: int) -> float:
    """Return how far the n-th of `count` series is drawn below the centre of its row."""
    return (series - (count - 1) / 2) * min(0.8 / count, 0.2)


def dots(
    axis: Axes,
    frame: pd.DataFrame,
    x: tuple[str, str, str],
    y: Sequence[float],
    look: Look,
    names: Sequence[str],
    tell: Callable[[float], str] = rounded,
) -> None:
    """Draw the values of `frame` at the heights `y`, with horizontal intervals.

    `x` names the columns of value, low and high. Values without an interval have hollow markers.
    The tooltip of a dot shows its name, from `names`, and its values.
    """
    value, low, high = (frame[name].to_numpy(dtype=float) for name in x)
    place = np.asarray(y, dtype=float)
    bounded = np.isfinite(low) & np.isfinite(high)
    texts = [tooltip(*each, tell) for each in zip(names, value, low, high, strict=True)]
    along = (place[bounded], place[bounded])
    segments(axis, (low[bounded], high[bounded]), along, look.colour)
    marks(axis, value, place, ~bounded, look, texts, widths=(0, 1.1))


def key(axis: Axes, look: Look, text: str) -> None:
    """Add a series of dots to the legend."""
    style.key(axis, replace(look, line="none"), text)
