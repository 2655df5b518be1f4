"""The diagnosis of a machine: its ceilings compared with recorded ceilings, and possible causes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from measurement.health.machine import (
    CPU_QUANTITIES,
    GPU_QUANTITIES,
    Ceilings,
    Gpu,
    Machine,
    Quantity,
)

# Bytes/s of one PCIe lane by generation, after encoding; copies reach about 0.87 of it.
LANE_BYTES_PER_S = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
_AT_FULL_LOAD = "sw_power_cap"  # healthy tensor cores reach the default power limit
_LEAST_SHARE = 0.7  # copies below this share of the link's bandwidth are unusual
# Ceilings this far outside the recorded range are unusual. Pageable copies and latency depend on
# the host, memory bandwidth of hosts on other virtual machines.
_TOLERANCE = {"link": 0.1, "duplex": 0.1, "compute": 0.05, "memory": 0.05}
_HOST_TOLERANCE = 0.25
_LEAST_SCALING = 0.5  # least share of all threads' peak; threads of a core share FMA units
_MOST_LOAD = 0.5  # more running processes per thread before the examination are unusual
_COOL_CLOCK = 0.9  # lower shares of the highest clock are unusual
_OTHER = ("other load on this host or GPU",)
SAME, LOW, HIGH, UNKNOWN = "as recorded", "worse", "better", "other hardware"


@dataclass(frozen=True)
class Row:
    """One ceiling of this machine, and its range on recorded machines with the same GPU or CPU."""

    device: str
    quantity: str
    unit: str
    value: float
    low: float | None
    high: float | None
    verdict: str
    topic: str


@dataclass(frozen=True)
class Finding:
    """An unusual value or setting of this machine, and its possible causes."""

    device: str
    what: str
    causes: tuple[str, ...]


def rows(machine: Machine, recorded: Sequence[Machine]) -> list[Row]:
    """Return the ceilings of a machine, each with its range on recorded machines."""
    rows: list[Row] = []
    gpus = [gpu for each in recorded for gpu in each.gpus]
    for gpu in machine.gpus:
        near = [other.ceilings for other in gpus if other.facts["name"] == gpu.facts["name"]]
        every = [other.ceilings for other in gpus]
        rows += _placed(gpu.facts["device"], GPU_QUANTITIES, gpu.ceilings, near, every)
    kind = ("cpu_model", "usable_threads")
    near = [one.cpu for one in recorded if all(one.host[k] == machine.host[k] for k in kind)]
    every = [one.cpu for one in recorded]
    return rows + _placed("cpu", CPU_QUANTITIES, machine.cpu, near, every)


def _placed(
    device: str,
    quantities: Sequence[Quantity],
    measured: Ceilings,
    near: Sequence[Ceilings],
    every: Sequence[Ceilings],
) -> list[Row]:
    """Return a row per ceiling, with its range on machines of this model (`near`), else on all."""
    placed = []
    for one in (quantity for quantity in quantities if quantity.key in measured):
        recorded_values = [each[one.key] / one.scale for each in near or every if one.key in each]
        value, verdict = (
            measured[one.key] / one.scale,
            SAME if near and recorded_values else UNKNOWN,
        )
        low, high = (
            (min(recorded_values), max(recorded_values)) if recorded_values else (None, None)
        )
        if low and high and verdict == SAME:
            by = 1 + _TOLERANCE.get(one.topic, _HOST_TOLERANCE)
            below, above = value < low / by, value > high * by
            if below or above:
                verdict = LOW if above == one.lower_is_better else HIGH
        placed.append(Row(device, one.text, one.unit, value, low, high, verdict, one.topic))
    return placed


def findings(machine: Machine, placed: Sequence[Row]) -> list[Finding]:
    """Return the unusual values and settings of a machine, with causes, the likeliest first."""
    unusual: list[Finding] = []
    for gpu in machine.gpus:
        unusual += _of_gpu(machine, gpu, [r for r in placed if r.device == gpu.facts["device"]])
    cpu_rows = [row for row in placed if row.device == "cpu"]
    return unusual + list(_of_cpu(machine, cpu_rows))


def _of_gpu(machine: Machine, gpu: Gpu, placed: Sequence[Row]) -> Iterator[Finding]:
    device = gpu.facts["device"]
    low = {row.topic: row for row in reversed(placed) if row.verdict == LOW}
    rate = gpu.ceilings.get("h2d_bytes_per_s pinned")
    capable = link_bytes_per_s(gpu.facts["pcie_generation"], gpu.facts["pcie_width"])
    slow = rate and capable and rate < _LEAST_SHARE * capable
    if rate and capable and slow and "link" not in low:
        text = f"copies reach {rate / capable:.0%} of the link that the GPU supports"
        yield Finding(device, text, tuple(_link(machine, gpu)) or _OTHER)
    for topic, row in low.items():
        yield Finding(device, _against(row), tuple(_CAUSES[topic](machine, gpu)) or _OTHER)
    explained = {*low, "link"} if slow else set(low)
    for topic, check in (("link", _narrow), ("compute", _capped)):
        causes = [cause for cause in check(machine, gpu) if not cause.endswith(_AT_FULL_LOAD)]
        if topic not in explained and causes:
            yield Finding(device, "a setting limits the GPU; no value is low", tuple(causes))
    if gpu.facts["ecc"] is False:
        yield Finding(device, "ECC is off", ("memory errors stay unnoticed; bandwidth may rise",))


def _of_cpu(machine: Machine, placed: Sequence[Row]) -> Iterator[Finding]:
    threads, around = machine.host["usable_threads"], machine.surroundings
    causes: list[str] = []
    if around.get("load", 0.0) > 1:
        causes.append(f"other processes use the CPU (load {around['load']:.1f})")
    granted = around.get("granted_cpus")
    if granted and granted < machine.host["usable_cpus"]:
        causes.append(f"the control group grants {granted:.3g} CPUs")
    if around.get("governor") == "powersave":
        causes.append("the frequency governor is powersave")
    if around.get("virtual_machine"):
        causes.append("a virtual machine: its threads share cores and memory with others")
    if around.get("load", 0.0) > _MOST_LOAD * threads:
        yield Finding("cpu", "other processes ran during the examination", tuple(causes[:1]))
    one, every = (machine.cpu.get(f"fp32_flop_per_s {kind}") for kind in ("one", "all"))
    if one and every and every < _LEAST_SCALING * threads * one:
        text = f"{threads} threads reach {every / one:.1f} times the peak of one thread"
        yield Finding("cpu", text, ("two threads per core", *causes))
    for row in placed:
        if row.verdict == LOW:
            more = ["fewer memory channels in use"] if row.topic == "cpu_memory" else []
            if row.topic == "cpu_memory" and around.get("numa_nodes", 1) > 1:
                more.append("memory of another NUMA node")
            yield Finding("cpu", _against(row), (*more, *causes) or _OTHER)


def _against(row: Row) -> str:
    return f"{row.quantity}: {row.value:.3g}, recorded {row.low:.3g} to {row.high:.3g} {row.unit}"


def link_bytes_per_s(generation: int | None, width: int | None) -> float | None:
    """Return the bandwidth of a PCIe link after encoding; None if an argument is None."""
    lane = LANE_BYTES_PER_S.get(generation or 0)
    return lane * width if lane and width else None


def _narrow(_: Machine, gpu: Gpu) -> Iterator[str]:
    now, most = gpu.state, gpu.facts
    slower = (now.get("pcie_generation") or 99) < (most["pcie_generation"] or 0)
    if slower or (now.get("pcie_width") or 99) < (most["pcie_width"] or 0):
        yield (
            f"the PCIe link runs at generation {now['pcie_generation']}, {now['pcie_width']} lanes;"
            f" the GPU supports generation {most['pcie_generation']}, {most['pcie_width']} lanes:"
            " check slot, riser and firmware settings"
        )


def _link(machine: Machine, gpu: Gpu) -> Iterator[str]:
    yield from _narrow(machine, gpu)
    if gpu.state.get("on_other_node"):
        yield "the GPU is on another NUMA node than this process: bind it with numactl"
    if (gpu.state.get("iommu_domain") or "").startswith("DMA"):
        yield "the IOMMU translates every copy: iommu=pt on the kernel's command line avoids it"
    if machine.surroundings.get("virtual_machine"):
        yield "a virtual machine: the host's link and IOMMU are shared and not visible here"


def _pageable(machine: Machine, gpu: Gpu) -> Iterator[str]:
    yield "the driver copies pageable memory through its own buffer, on one CPU thread"
    yield from _link(machine, gpu)


def _capped(_: Machine, gpu: Gpu) -> Iterator[str]:
    limit_w, default_w = gpu.facts["power_limit_w"], gpu.state.get("default_power_limit_w")
    if limit_w and default_w and limit_w < default_w:
        yield f"the power limit is {limit_w:.0f} W, the default {default_w:.0f} W: nvidia-smi -pl"
    for reason in gpu.state.get("throttled", ()):
        yield f"the GPU reports {reason}"


def _compute(machine: Machine, gpu: Gpu) -> Iterator[str]:
    yield from _capped(machine, gpu)
    yield from _clock(gpu, "sm_clock", "SM clock")


def _memory(machine: Machine, gpu: Gpu) -> Iterator[str]:
    yield from _clock(gpu, "memory_clock", "memory clock")
    yield from _capped(machine, gpu)
    if gpu.facts["ecc"]:
        yield "ECC is on: it reduces the bandwidth of GDDR memory, but not of HBM"


def _clock(gpu: Gpu, name: str, text: str) -> Iterator[str]:
    now, most = gpu.state.get(f"{name}_hz"), gpu.facts[f"{name}_max_hz"]
    if now and most and now < _COOL_CLOCK * most:
        yield f"the {text} is {now / 1e9:.2f} GHz, the highest {most / 1e9:.2f} GHz"


def _latency(machine: Machine, gpu: Gpu) -> Iterator[str]:
    if gpu.facts["persistence_mode"] == 0:
        yield "persistence mode is off"
    if machine.surroundings.get("governor") == "powersave":
        yield "the frequency governor is powersave"
    if machine.surroundings.get("virtual_machine"):
        yield "a virtual machine: interrupts and accesses to the GPU take longer"


_CAUSES: dict[str, Callable[[Machine, Gpu], Iterator[str]]] = {
    "link": _link,
    "duplex": _link,
    "pageable": _pageable,
    "compute": _compute,
    "memory": _memory,
    "latency": _latency,
}


def plain(machine: Machine, placed: Sequence[Row], unusual: Sequence[Finding]) -> dict[str, Any]:
    """Return the diagnosis as plain values, for JSON."""
    return {
        "host": dict(machine.host),
        "surroundings": dict(machine.surroundings),
        "gpus": [{**gpu.facts, "state": dict(gpu.state)} for gpu in machine.gpus],
        "ceilings": [asdict(row) for row in placed],
        "findings": [asdict(one) for one in unusual],
    }
