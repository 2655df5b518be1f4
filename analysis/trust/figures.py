"""The figures of this topic: which rows they show; `analysis.trust.plots` draws them."""

from collections.abc import Callable

import pandas as pd
from matplotlib.figure import Figure

from analysis.data.devices import Devices
from analysis.data.store import Store
from analysis.domain import CPU
from analysis.drawing import style
from analysis.trust import plots
from analysis.trust.agreement import AGREEMENT, ALONE, BATCHES, ON_CPU, PAGEABLE, PINNED, alone
from measurement.recording.recording import CELL

_KEY = [name for name in CELL if name != "device"]
_MEMORY = {PINNED: "pinned", PAGEABLE: "pageable"}


def agreement(store: Store, devices: Devices) -> Figure | None:
    """Draw how the medians of recordings of the same GPU model differ, a panel a pair."""
    frame = store["agreement"]
    pairs = frame.loc[frame["gpu_a"].notna(), ["recording_a", "gpu_a", "recording_b", "gpu_b"]]
    pairs = pairs.drop_duplicates()
    focus = devices.focus.label if devices.focus else None
    with_focus = (pairs["gpu_a"] == focus) | (pairs["gpu_b"] == focus)
    pairs = pd.concat([pairs[with_focus], pairs[~with_focus]])[: style.MOST_PANELS]
    names = {device.label: device.short for device in devices.all}
    panels = {}
    hosts = set()
    for pair in pairs.itertuples(index=False):
        own = frame[(frame["gpu_a"] == pair.gpu_a) & (frame["gpu_b"] == pair.gpu_b)]
        recordings = (pair.recording_a, pair.recording_b)
        if recordings not in hosts:  # the CPUs of two hosts are compared once
            same = (frame["recording_a"] == recordings[0]) & (frame["recording_b"] == recordings[1])
            own = pd.concat([own, frame[same & (frame["kind"] == ON_CPU)]])
            hosts.add(recordings)
        found = {
            (str(row["kind"]), str(row["quantity"])): _ratios(store, row) for row in _rows(own)
        }
        title = f"{names.get(pair.gpu_b, pair.gpu_b)} / {names.get(pair.gpu_a, pair.gpu_a)}"
        panels[title] = {key: ratios for key, ratios in found.items() if len(ratios)}
    panels = {title: found for title, found in panels.items() if found}
    return plots.agreement(panels, AGREEMENT) if panels else None


def _rows(frame: pd.DataFrame) -> list[dict[str, object]]:
    return frame.to_dict("records")


def _ratios(store: Store, row: dict[str, object]) -> pd.Series:
    """Return the ratios B/A of the medians that a row of agreement.csv counts."""
    kind, quantity = str(row["kind"]), str(row["quantity"])
    frame = store["back_to_back" if kind == BATCHES else "summary"]
    if kind == ON_CPU:
        frame = frame[frame["device"] == CPU]
    elif kind == ALONE:
        frame = alone(frame)
    elif kind != BATCHES:
        frame = frame[(frame["device"] != CPU) & (frame["host_memory"] == _MEMORY[kind])]
    key = [name for name in _KEY if name in frame]
    by = "recording" if kind == ON_CPU else "gpu"
    a, b = (frame[frame[by] == row[f"{by}_{side}"]] for side in "ab")
    both = a.merge(b, on=key, suffixes=("_a", "_b"))  # an empty part of a key matches an empty part
    return (both[f"{quantity}_s_b"] / both[f"{quantity}_s_a"]).dropna()


def launches(store: Store, devices: Devices) -> Figure | None:
    """Draw single launches over launches back to back, by the length of the kernel.

    Of each kernel and size, products of square float32 matrices, the fastest block size is shown.
    """
    frame = store["back_to_back"]
    square = (frame["batch"] == 1) & (frame["m"] == frame["n"]) & (frame["n"] == frame["k"])
    frame = frame[square & (frame["dtype"] == "float32") & frame["ratio"].notna()]
    fastest = frame.groupby(["gpu", "variant", "n"])["kernel_batch_s"].idxmin()
    cards = devices.gpus[: style.MOST_PANELS]  # of more, points hide each other
    frame = frame.loc[fastest]
    by_card = {card.short: frame[frame["gpu"] == card.label] for card in cards}
    found = {name: rows for name, rows in by_card.items() if len(rows)}
    return plots.launches(found) if found else None


FIGURES: dict[str, Callable[[Store, Devices], Figure | None]] = {
    "agreement": agreement,
    "launches": launches,
}
