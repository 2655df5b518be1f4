"""The rows of each figure of this topic; `analysis.cpu.plots` draws them."""

from collections.abc import Callable, Mapping, Sequence

import pandas as pd
from matplotlib.figure import Figure

from analysis.cpu import plots
from analysis.cpu.hosts import LEVELS
from analysis.cpu.plots import Host, Whole
from analysis.cpu.roofline import rates_by_threads
from analysis.cpu.split import GPU, WHOLE
from analysis.data.cells import of_sizes
from analysis.data.devices import Device, Devices
from analysis.data.store import Store
from analysis.domain import CPU, HOST_MEMORY_ORDER, PUBLISHED
from analysis.drawing import style
from analysis.drawing.style import with_rates

_SWEPT = "blocked"
_PINNED = "pinned"  # the part after GPU: the further speedup with pinned memory


def cpu_split(store: Store, devices: Devices) -> Figure | None:
    """Draw the parts of the speedup over the naive CPU loop, published and on each GPU."""
    frame = store["cpu_split"]
    frame = frame[(frame["start"] == "naive") & (frame["part"] != WHOLE)]
    frame = frame.assign(rough=frame["factor_low"].isna() & (frame["recording"] != PUBLISHED))
    wholes = [_whole(gpu.short, frame[frame["gpu"] == gpu.label]) for gpu in _many(devices.gpus)]
    measured = [whole for whole in wholes if whole]
    published = _whole(PUBLISHED, frame[frame["recording"] == PUBLISHED])
    return plots.split([*([published] if published else []), *measured]) if measured else None


def _whole(name: str, rows: pd.DataFrame) -> Whole | None:
    """Return the parts of one speedup; faster pinned memory adds a part."""
    kinds = {kind: own for kind, own in rows.groupby("host_memory", dropna=False) if len(own)}
    if not kinds:
        return None
    rank = {kind: number for number, kind in enumerate(HOST_MEMORY_ORDER)}
    first, *others = sorted(kinds, key=lambda kind: rank.get(kind, len(rank)))
    parts = kinds[first]
    n = f"N = {style.plain_number(int(parts['n'].iloc[0]))}"
    if not others:
        return Whole(name, n if pd.isna(first) else f"{n}, {first}", parts)
    best, plain = (kinds[kind].set_index("part").loc[GPU] for kind in (others[0], first))
    factor = float(best["factor"] / plain["factor"])
    if factor > 1:
        more = {"part": _PINNED, "factor": factor, "variant": best["variant"], "rough": False}
        parts = pd.concat([parts, pd.DataFrame([more])], ignore_index=True)
    return Whole(name, n, parts)


def cpu_rate(store: Store, devices: Devices) -> Figure | None:
    """Draw the throughput of each CPU variant by size on every host, below its FMA ceiling."""
    hosts = _hosts(_cpu_cells(store), style.panelled(_by_focus(devices)), store)
    return plots.rates(hosts) if hosts else None


def cpu_roofline(store: Store, devices: Devices) -> Figure | None:
    """Draw the CPU variants of the host in focus below its ceilings."""
    frame = store["cpu_roofline"]
    frame = frame[frame["flop_per_byte_beyond_l1"].notna()]
    frame = with_rates(frame.assign(batch=1, m=frame["n"], k=frame["n"]), "total")
    hosts = _hosts(frame, _by_focus(devices)[:1], store)
    return plots.roofline(hosts[0]) if hosts and hosts[0].ceilings else None


def cpu_blocks(store: Store, devices: Devices) -> Figure | None:
    """Draw the throughput of cache blocking by block size on every host, at its largest size."""
    cells = _cpu_cells(store)
    cells = cells[(cells["variant"] == _SWEPT) & cells["block_size"].notna()]
    cells = cells[cells["n"] == cells.groupby("recording")["n"].transform("max")]
    hosts = _hosts(cells, _many(_by_focus(devices)), store)
    return plots.blocks(hosts, _caches(store, hosts[0].recording)) if hosts else None


def _cpu_cells(store: Store) -> pd.DataFrame:
    """Return the timed CPU cells of the study's sizes, with throughput."""
    cells = of_sizes(store["summary"])
    return with_rates(cells[cells["device"] == CPU], "total")


def _by_focus(devices: Devices) -> list[Device]:
    """Return the hosts, beginning with that of the GPU in focus."""
    focus = devices.focus.recording if devices.focus else None
    return sorted(devices.hosts, key=lambda host: host.recording != focus)


def _many(devices: Sequence[Device]) -> Sequence[Device]:
    return devices[: style.MOST_COLOURS]


def _hosts(cells: pd.DataFrame, devices: Sequence[Device], store: Store) -> list[Host]:
    """Return the data of each host that has rows in `cells`."""
    found = []
    for device in devices:
        own = cells[cells["recording"] == device.recording]
        if len(own):
            ceilings = rates_by_threads(store["ceilings"], device.recording)
            found.append(Host(device.host, device.recording, own, ceilings))
    return found


def _caches(store: Store, recording: str) -> Mapping[int, int]:
    """Return the known cache sizes of a host in bytes, by level."""
    frame = store["cpu_hosts"]
    own = frame[frame["recording"] == recording]
    sizes = {level: own[f"l{level}_bytes"].dropna() for level in LEVELS}
    return {level: int(found.iloc[0]) for level, found in sizes.items() if len(found)}


FIGURES: dict[str, Callable[[Store, Devices], Figure | None]] = {
    "cpu-split": cpu_split,
    "cpu-rate": cpu_rate,
    "cpu-roofline": cpu_roofline,
    "cpu-blocks": cpu_blocks,
}
