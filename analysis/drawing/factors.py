"""Axes of factors, on which 1 is perfect."""

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from analysis.drawing.style import log_axis, plain_number

# The largest over the least factor up to which ticks are evenly spaced, and up to which they are:
_NEAR, _FAR = 2.0, 20.0
_FACTORS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0, 15.0, 20.0)


def factor_axis(axis: Axes, which: str) -> None:
    """Make an axis of factors logarithmic, with ticks that fit those near 1 as well as far off."""
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
