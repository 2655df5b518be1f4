"""The figures of this topic."""

from collections.abc import Callable

from matplotlib.figure import Figure

from analysis.data.devices import Devices
from analysis.data.store import Store

FIGURES: dict[str, Callable[[Store, Devices], Figure | None]] = {}
