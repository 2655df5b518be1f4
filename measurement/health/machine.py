"""Machines as their ceilings and settings, examined now or read from a recording."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from base.errors import StudyError
from measurement.devices.ceilings import Ceiling
from measurement.recording.files import PROVENANCE, check_manifest, read_provenance
from measurement.recording.recording import plain_rows, read_table

_MOST_BYTES = 2**26  # limit of a table of ceilings
Ceilings = Mapping[str, float]  # medians by the key of a quantity
CPU = "cpu"


@dataclass(frozen=True)
class Quantity:
    """How a ceiling is shown: key of its median, name, unit, scale; `topic` selects the causes."""

    key: str
    text: str
    unit: str
    scale: float
    topic: str
    lower_is_better: bool = False


GPU_QUANTITIES = (
    Quantity("h2d_bytes_per_s pinned", "copy to the GPU, pinned", "GB/s", 1e9, "link"),
    Quantity("d2h_bytes_per_s pinned", "copy from the GPU, pinned", "GB/s", 1e9, "link"),
    Quantity("h2d_duplex_bytes_per_s pinned", "to the GPU, both at once", "GB/s", 1e9, "duplex"),
    Quantity("d2h_duplex_bytes_per_s pinned", "from the GPU, both at once", "GB/s", 1e9, "duplex"),
    Quantity("h2d_bytes_per_s pageable", "copy to the GPU, pageable", "GB/s", 1e9, "pageable"),
    Quantity("d2h_bytes_per_s pageable", "copy from the GPU, pageable", "GB/s", 1e9, "pageable"),
    Quantity("empty_total_s", "launch latency (empty run)", "µs", 1e-6, "latency", True),
    Quantity("fp32_flop_per_s", "FMA peak, float32", "TFLOP/s", 1e12, "compute"),
    Quantity("fp16_tensor_flop_per_s", "tensor peak, float16", "TFLOP/s", 1e12, "compute"),
    Quantity("device_copy_bytes_per_s", "memory bandwidth, GPU", "TB/s", 1e12, "memory"),
)
CPU_QUANTITIES = (
    Quantity("fp32_flop_per_s one", "CPU peak, one thread", "GFLOP/s", 1e9, "cpu"),
    Quantity("fp32_flop_per_s all", "CPU peak, all threads", "GFLOP/s", 1e9, "cpu"),
    Quantity("memory_bytes_per_s one", "memory bandwidth, one thread", "GB/s", 1e9, "cpu_memory"),
    Quantity("memory_bytes_per_s all", "memory bandwidth, all threads", "GB/s", 1e9, "cpu_memory"),
)


@dataclass(frozen=True)
class Gpu:
    """A GPU of a machine: the facts of its provenance, its state under load, and its ceilings."""

    facts: Mapping[str, Any]
    ceilings: Ceilings
    state: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Machine:
    """A host and its GPUs; `surroundings` are its settings, `facts` are those of its provenance."""

    label: str
    host: Mapping[str, Any]
    gpus: tuple[Gpu, ...]
    cpu: Ceilings
    surroundings: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


def ceilings_of(ceilings: Iterable[Ceiling]) -> Ceilings:
    """Return the medians of ceilings by key.

    A key contains the quantity. It also contains, for a copy, the host memory at the largest size;
    for a CPU, the threads: one or all.
    """
    rows = list(ceilings)
    most = max((row.threads or 1 for row in rows), default=1)
    sizes: dict[str, dict[int, list[float]]] = {}
    for row in rows:
        kinds: list[str | None] = [row.host_memory]
        if row.threads:
            kinds = [kind for kind, count in (("one", 1), ("all", most)) if row.threads == count]
        for kind in kinds:
            key = f"{row.quantity} {kind}" if kind else row.quantity
            sizes.setdefault(key, {}).setdefault(row.size_bytes or 0, []).append(row.value)
    return {key: median(by_size[max(by_size)]) for key, by_size in sizes.items()}


def recorded(folder: Path) -> Machine:
    """Return the machine of a recording; raise RecordingError."""
    check_manifest(folder)
    facts = read_provenance(folder)
    frame, _ = read_table(folder, "ceilings.csv", _MOST_BYTES)
    by_device: dict[str, list[Ceiling]] = {}
    for row in plain_rows(frame):
        by_device.setdefault(row.pop("device"), []).append(Ceiling(**row))
    gpus = (Gpu(gpu, ceilings_of(by_device.get(gpu["device"], []))) for gpu in facts["devices"])
    cpu = ceilings_of(by_device.get(CPU, []))
    return Machine(folder.name, facts["host"], tuple(gpus), cpu, facts=facts)


def in_folder(folder: Path) -> list[Machine]:
    """Return the machines of the recordings in a folder; raise StudyError.

    GPUs that were measured at the same time are excluded, because they shared links and CPU.
    """
    machines = [recorded(path.parent) for path in sorted(folder.glob(f"*/{PROVENANCE}"))]
    if not machines:
        raise StudyError(f"--recordings {folder}: contains no recordings; name their folder")
    return [one for one in machines if not one.facts.get("at_once")]
