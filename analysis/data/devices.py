"""The measured devices: every GPU, and the CPU of each host that has no GPU."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from analysis.data.store import Store, StoreError


@dataclass(frozen=True)
class Device:
    """One measured device: a GPU, or the CPU of a host without GPU.

    `label` is its name in tables: the value of the column gpu or, for a host without GPU, of the
    column recording.
    """

    label: str
    recording: str
    is_gpu: bool
    name: str
    cpu_model: str
    simulated: bool
    live: bool
    at_once: bool
    stale_sources: tuple[str, ...]

    @property
    def mark(self) -> str:
        """The mark that precedes every name of the device, such as SIMULATED; empty if none."""
        if self.simulated:
            return "SIMULATED"
        return "AT ONCE" if self.at_once and self.is_gpu else ""

    @property
    def title(self) -> str:
        """The mark, the name and the label; only once if name and label are equal."""
        title = self.label if self.name == self.label else f"{self.name} ({self.label})"
        return f"{self.mark} {title}".lstrip()

    @property
    def host(self) -> str:
        """A name for the host and its CPU: the recording, marked if simulated."""
        return f"SIMULATED {self.recording}" if self.simulated else self.recording

    @property
    def short(self) -> str:
        """The label with its mark, for legends and titles of panels."""
        return f"{self.mark} {self.label}".lstrip()


@dataclass(frozen=True)
class Devices:
    """All devices in the order of recordings.csv, and the GPU in focus, if any."""

    all: tuple[Device, ...]
    focus: Device | None

    @property
    def gpus(self) -> tuple[Device, ...]:
        """The GPUs, starting with the one in focus."""
        gpus = [device for device in self.all if device.is_gpu]
        return tuple(sorted(gpus, key=lambda device: device is not self.focus))

    @property
    def hosts(self) -> tuple[Device, ...]:
        """The first device of every recording, which stands for the CPU of its host."""
        first = {device.recording: device for device in reversed(self.all)}
        return tuple(device for device in self.all if first[device.recording] is device)


def slug(text: str) -> str:
    """Return `text` as lower-case letters, digits and hyphens, for file names and anchors."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "unnamed"


def devices(store: Store, focus: str | None = None) -> Devices:
    """Return the devices; `focus` is a GPU or recording, by default the first GPU or host.

    If the recording of `focus` is in the table `missing`, the default applies. Raise StoreError if
    `focus` is unknown.
    """
    measured = tuple(_device(row) for row in store["recordings"].to_dict("records"))
    wanted = [one for one in measured if focus in (one.label, one.recording)] if focus else []
    if focus and not wanted and focus.partition("-gpu")[0] not in [*store["missing"]["recording"]]:
        labels = ", ".join(one.label for one in measured) or "nothing was measured"
        raise StoreError(f"report.focus: {focus} was not measured; allowed: {labels}")
    by_default: Sequence[Device] = [one for one in measured if one.is_gpu] or measured
    return Devices(measured, next(iter(wanted or by_default), None))


def _device(row: dict[str, object]) -> Device:
    text = {key: "" if pd.isna(value) else str(value) for key, value in row.items()}
    return Device(
        label=text["gpu"] or text["recording"],
        recording=text["recording"],
        is_gpu=bool(text["gpu"]),
        name=text["gpu_name"] or text["cpu_model"],
        cpu_model=text["cpu_model"],
        simulated=text["simulated"] == "True",
        live=text["live"] == "True",
        at_once=text["at_once"] == "True",
        stale_sources=tuple(filter(None, text["stale_sources"].split(";"))),
    )
