"""The figures of this topic: which rows they show; `analysis.decide.plots` draws them."""

from collections.abc import Callable

import pandas as pd
from matplotlib.figure import Figure

from analysis.data.devices import Devices
from analysis.data.store import Store
from analysis.decide import plots
from analysis.decide.advise import CPU_BASELINES
from analysis.decide.break_even import STUDY
from analysis.decide.plots import ByCard
from analysis.decide.transfer_tables import PASSES
from analysis.domain import HOST_MEMORY_ORDER
from analysis.drawing import style


def break_even(store: Store, devices: Devices) -> Figure | None:
    """Draw from which size on each GPU is faster than each CPU version, with its copies."""
    frame = store["break_even"]
    frame = frame[(frame["kernels"] == STUDY) & frame["cpu_baseline"].isin(CPU_BASELINES)]
    by_card = _by_card(frame, devices)
    return plots.break_even(by_card, CPU_BASELINES, _memories(by_card)) if by_card else None


def copies(store: Store, devices: Devices) -> Figure | None:
    """Draw the rate of the copies of whole passes by their size, and the fitted model's."""
    points, fits = store["transfer_points"], store["transfers"]
    points = points[(points["data"] == PASSES) & points["direction"].isin(plots.WAYS)]
    fits = fits[fits["used"].fillna(False) & fits["direction"].isin(plots.WAYS)]
    most = style.MOST_PANELS  # of more, points hide each other
    by_card = _by_card(points, devices, most)
    return plots.copies(by_card, _by_card(fits, devices, most)) if by_card else None


def predictions(store: Store, devices: Devices) -> Figure | None:
    """Draw predicted over measured times of runs at sizes that no fit saw."""
    by_card = _by_card(store["predictions"], devices)
    return plots.predictions(by_card, _memories(by_card)) if by_card else None


def _by_card(frame: pd.DataFrame, devices: Devices, most: int = style.MOST_COLOURS) -> ByCard:
    """Return the rows of each GPU by its name, that in focus first; none without rows."""
    cards = devices.gpus[:most]
    found = {card.short: frame[frame["gpu"] == card.label] for card in cards}
    return {name: rows for name, rows in found.items() if len(rows)}


def _memories(by_card: ByCard) -> list[str]:
    kinds = {kind for rows in by_card.values() for kind in rows["host_memory"]}
    return [kind for kind in reversed(HOST_MEMORY_ORDER) if kind in kinds]


FIGURES: dict[str, Callable[[Store, Devices], Figure | None]] = {
    "break-even": break_even,
    "copies": copies,
    "predictions": predictions,
}
