"""What every roofline is drawn of: the rate of multiply-adds, and below it those of memories."""

from collections.abc import Iterable

import numpy as np
from matplotlib.axes import Axes

from analysis.stats.estimates import FloatArray
from analysis.svg import INK

# Text, line, and bytes a second of a memory.
Roof = tuple[str, str, float]


def draw_peak(axis: Axes, flop_per_s: float, x: float, text: str = "multiply-adds") -> None:
    """Draw the rate of multiply-adds across the panel, with its text above it from `x` on."""
    peak = flop_per_s / 1e9
    axis.axhline(peak, color=INK, linewidth=1.2)
    axis.annotate(text, (x, peak), xytext=(0, 3), textcoords="offset points", fontsize=8)


def draw_roofs(
    axis: Axes, flop_per_byte: FloatArray, roofs: Iterable[Roof], flop_per_s: float
) -> None:
    """Draw the rate that each memory allows at these intensities, up to that of multiply-adds.

    `flop_per_s` is NaN where that is not known.
    """
    for text, line, bytes_per_s in roofs:
        rate = np.fmin(flop_per_byte * bytes_per_s, flop_per_s) / 1e9
        axis.plot(flop_per_byte, rate, line, color=INK, linewidth=1.1, label=text)
