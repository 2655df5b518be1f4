"""Figures on repeatability and timing: the rows that `analysis.trust.plots` draws."""

from collections.abc import Callable

import pandas as pd
from matplotlib.figure import Figure

from analysis.data.best import fastest
from analysis.data.devices import Devices
from analysis.data.store import Store
from analysis.drawing import style
from analysis.stats.significance import THRESHOLD
from analysis.trust import plots
from analysis.trust.comparison import medians, ratios

_MOST_SESSIONS = 7  # drawn as points
_TABLES = ("summary", "telemetry", "back_to_back")


def agreement(store: Store, devices: Devices) -> Figure | None:
    """Draw the ratios of medians of recordings of one GPU model, one panel per pair."""
    frame = store["agreement"]
    pairs = frame.loc[frame["gpu_a"].notna(), ["recording_a", "gpu_a", "recording_b", "gpu_b"]]
    pairs = pairs.drop_duplicates()
    focus = devices.focus.label if devices.focus else None
    with_focus = (pairs["gpu_a"] == focus) | (pairs["gpu_b"] == focus)
    pairs = pd.concat([pairs[with_focus], pairs[~with_focus]])[: style.MOST_PANELS]
    names = {device.label: device.short for device in devices.all}
    both = ratios(frame, medians({name: store[name] for name in _TABLES}))
    by_row = dict(list(both.groupby("pair")["ratio"]))
    panels = {}
    hosts = set()
    for pair in pairs.itertuples(index=False):
        own = (frame["gpu_a"] == pair.gpu_a) & (frame["gpu_b"] == pair.gpu_b)
        recordings = (pair.recording_a, pair.recording_b)
        if recordings not in hosts:  # two GPUs of one host share its CPU
            hosts.add(recordings)
            same = (frame["recording_a"] == recordings[0]) & (frame["recording_b"] == recordings[1])
            own |= same & frame["gpu_a"].isna()
        kinds = frame.loc[own & frame.index.isin(by_row), ["kind", "quantity"]]
        title = f"{names.get(pair.gpu_b, pair.gpu_b)} / {names.get(pair.gpu_a, pair.gpu_a)}"
        panels[title] = {(kind, each): by_row[row] for row, kind, each in kinds.itertuples()}
    panels = {title: found for title, found in panels.items() if found}
    return plots.agreement(panels, THRESHOLD) if panels else None


def launches(store: Store, devices: Devices) -> Figure | None:
    """Draw the ratio of single to back-to-back launches by kernel time.

    Points are square float32 products, each with its fastest block size.
    """
    frame = store["back_to_back"]
    square = (frame["batch"] == 1) & (frame["m"] == frame["n"]) & (frame["n"] == frame["k"])
    frame = frame[square & (frame["dtype"] == "float32") & frame["ratio"].notna()]
    gpus = devices.gpus[: style.MOST_PANELS]  # more would hide each other
    frame = fastest(frame, "kernel_batch_s", ["gpu", "variant", "n"])
    by_gpu = {gpu.short: frame[frame["gpu"] == gpu.label] for gpu in gpus}
    found = {name: rows for name, rows in by_gpu.items() if len(rows)}
    return plots.launches(found) if found else None


def sessions(store: Store, devices: Devices) -> Figure | None:
    """Draw the mean effect of each session on the GPU in focus as a point, if they are few."""
    frame = store["session_effects"]
    focus = devices.focus.label if devices.focus else None
    frame = frame[(frame["gpu"] == focus) & frame["quantity"].isin(["kernel", "total"])]
    if frame.empty or frame["session"].nunique() > _MOST_SESSIONS:
        return None
    names = frame[["quantity", "host_memory", "matrices_in", "length"]].astype("string").fillna("")
    work = frame["host_work"].astype("boolean").fillna(False).map({True: "host work", False: ""})
    kinds = names.assign(work=work).apply(lambda row: ", ".join(filter(None, row)), axis=1)
    return plots.sessions(frame.assign(kind=kinds))


FIGURES: dict[str, Callable[[Store, Devices], Figure | None]] = {
    "agreement": agreement,
    "launches": launches,
    "sessions": sessions,
}
