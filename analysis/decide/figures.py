"""The rows of each figure of this topic; `analysis.decide.plots` draws them."""

import pandas as pd
from matplotlib.figure import Figure

from analysis.data.devices import Devices
from analysis.data.store import Store
from analysis.decide import plots
from analysis.decide.advise import CPU_BASELINES
from analysis.decide.break_even import STUDY
from analysis.decide.plots import RowsByGpu
from analysis.decide.transfer_tables import END_TO_END
from analysis.domain import HOST_MEMORY_ORDER
from analysis.drawing import style


def break_even(store: Store, devices: Devices) -> Figure | None:
    """Draw the break-even size of each GPU, copies included, over each CPU baseline."""
    frame = store["break_even"]
    frame = frame[(frame["kernels"] == STUDY) & frame["cpu_baseline"].isin(CPU_BASELINES)]
    by_gpu = _by_gpu(frame, devices)
    return plots.break_even(by_gpu, CPU_BASELINES, _memories(by_gpu)) if by_gpu else None


def copies(store: Store, devices: Devices) -> Figure | None:
    """Draw the throughput of the copies of end-to-end runs by size, measured and fitted."""
    points, fits = store["transfer_points"], store["transfers"]
    points = points[(points["data"] == END_TO_END) & points["direction"].isin(plots.DIRECTIONS)]
    fits = fits[fits["used"].fillna(False) & fits["direction"].isin(plots.DIRECTIONS)]
    most = style.MOST_PANELS  # with more GPUs, points hide each other
    by_gpu = _by_gpu(points, devices, most)
    return plots.copies(by_gpu, _by_gpu(fits, devices, most)) if by_gpu else None


def predictions(store: Store, devices: Devices) -> Figure | None:
    """Draw predicted over measured times of runs at held-out sizes."""
    by_gpu = _by_gpu(store["predictions"], devices)
    return plots.predictions(by_gpu, _memories(by_gpu)) if by_gpu else None


def _by_gpu(frame: pd.DataFrame, devices: Devices, most: int = style.MOST_COLOURS) -> RowsByGpu:
    """Return the rows of each GPU by its name, the GPU in focus first, without empty ones."""
    found = {gpu.short: frame[frame["gpu"] == gpu.label] for gpu in devices.gpus[:most]}
    return {name: rows for name, rows in found.items() if len(rows)}


def _memories(by_gpu: RowsByGpu) -> list[str]:
    kinds = {kind for rows in by_gpu.values() for kind in rows["host_memory"]}
    return [kind for kind in reversed(HOST_MEMORY_ORDER) if kind in kinds]


FIGURES = style.named(break_even, copies, predictions)
