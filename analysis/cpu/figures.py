"""The figures of this topic: which rows they show; `analysis.cpu.plots` draws them."""

from collections.abc import Callable, Mapping, Sequence

import pandas as pd
from matplotlib.figure import Figure

from analysis.cpu import plots
from analysis.cpu.hosts import LEVELS
from analysis.cpu.plots import Ceilings, Host, Whole
from analysis.cpu.split import GPU, WHOLE
from analysis.data.cells import of_sizes
from analysis.data.devices import Device, Devices
from analysis.data.store import Store
from analysis.domain import CPU, HOST_MEMORY_ORDER, PUBLISHED
from analysis.drawing import style
from analysis.drawing.rates import with_rates

_SWEPT = "blocked"
_PINNED = "pinned"  # the part that follows GPU: what pinned memory adds


def cpu_split(store: Store, devices: Devices) -> Figure | None:
    """Draw what speedups over the naive CPU loop are made up of, published and on every GPU."""
    frame = store["cpu_split"]
    frame = frame[(frame["start"] == "naive") & (frame["part"] != WHOLE)]
    frame = frame.assign(rough=frame["factor_low"].isna() & (frame["recording"] != PUBLISHED))
    cards = [_whole(card.short, frame[frame["gpu"] == card.label]) for card in _many(devices.gpus)]
    measured = [whole for whole in cards if whole]
    published = _whole(PUBLISHED, frame[frame["recording"] == PUBLISHED])
    return plots.split([*([published] if published else []), *measured]) if measured else None


def _whole(name: str, rows: pd.DataFrame) -> Whole | None:
    """Return the parts of one speedup; where pinned memory gains more, that is one more part."""
    kinds = {kind: own for kind, own in rows.groupby("host_memory", dropna=False) if len(own)}
    if not kinds:
        return None
    order = {kind: place for place, kind in enumerate(HOST_MEMORY_ORDER)}
    first, *others = sorted(kinds, key=lambda kind: order.get(kind, len(order)))
    parts = kinds[first]
    n = f"N = {style.plain_number(int(parts['n'].iloc[0]))}"
    if not others:
        return Whole(name, n if pd.isna(first) else f"{n}, {first}", parts)
    best, plain = (kinds[kind].set_index("part").loc[GPU] for kind in (others[0], first))
    factor = float(best["factor"] / plain["factor"])
    if factor > 1:
        # Of the same CPU, so that what is left of the ratio is that of the two times.
        more = {"part": _PINNED, "factor": factor, "variant": best["variant"], "rough": False}
        parts = pd.concat([parts, pd.DataFrame([more])], ignore_index=True)
    return Whole(name, n, parts)


def cpu_rate(store: Store, devices: Devices) -> Figure | None:
    """Draw the rate of each CPU version by size on every host, below its FMAs."""
    hosts = _hosts(_cpu_cells(store), style.panelled(_by_focus(devices)), store)
    return plots.rates(hosts) if hosts else None


def cpu_roofline(store: Store, devices: Devices) -> Figure | None:
    """Draw the CPU versions of the host in focus below its ceilings."""
    frame = store["cpu_roofline"]
    frame = frame[frame["flop_per_byte_beyond_l1"].notna()]
    frame = with_rates(frame.assign(batch=1, m=frame["n"], k=frame["n"]), "total")
    hosts = _hosts(frame, _by_focus(devices)[:1], store)
    return plots.roofline(hosts[0]) if hosts and hosts[0].ceilings else None


def cpu_blocks(store: Store, devices: Devices) -> Figure | None:
    """Draw the rate of cache blocking by its block size on every host, at its largest size."""
    cells = _cpu_cells(store)
    cells = cells[(cells["variant"] == _SWEPT) & cells["block_size"].notna()]
    cells = cells[cells["n"] == cells.groupby("recording")["n"].transform("max")]
    hosts = _hosts(cells, _many(_by_focus(devices)), store)
    return plots.blocks(hosts, _caches(store, hosts[0].recording)) if hosts else None


def _cpu_cells(store: Store) -> pd.DataFrame:
    """Return the timed products of the CPUs at the study's sizes, with rates."""
    cells = of_sizes(store["summary"])
    return with_rates(cells[cells["device"] == CPU], "total")


def _by_focus(devices: Devices) -> list[Device]:
    """Return the hosts, that of the GPU in focus first."""
    focus = devices.focus.recording if devices.focus else None
    return sorted(devices.hosts, key=lambda host: host.recording != focus)


def _many(devices: Sequence[Device]) -> Sequence[Device]:
    return devices[: style.MOST_COLOURS]


def _hosts(cells: pd.DataFrame, devices: Sequence[Device], store: Store) -> list[Host]:
    """Return what is drawn of each host that has rows in `cells`."""
    found = []
    for device in devices:
        own = cells[cells["recording"] == device.recording]
        if len(own):
            ceilings = _ceilings(store["ceilings"], device.recording)
            found.append(Host(device.host, device.recording, own, ceilings))
    return found


def _ceilings(frame: pd.DataFrame, recording: str) -> Ceilings:
    """Return the medians of a CPU's ceilings by quantity and number of threads."""
    own = frame[(frame["recording"] == recording) & (frame["device"] == CPU)]
    rows = own[own["threads"].notna() & own["value"].notna()]
    values = rows[["quantity", "threads", "value"]].itertuples(index=False)
    return {(str(name), int(threads)): float(value) for name, threads, value in values}


def _caches(store: Store, recording: str) -> Mapping[int, int]:
    """Return the bytes of each cache level of a host of which the size is known."""
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
