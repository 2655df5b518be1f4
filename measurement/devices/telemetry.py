"""Telemetry of a GPU during measurements: clocks, temperature, power, throttling."""

from dataclasses import dataclass
from typing import Any, Protocol

import pynvml

from measurement.recording.throttling import THROTTLE_REASONS

# Counters of throttled time since the driver was loaded, in ns. NVML returns these two at once;
# the counters of the hardware's reasons take half a millisecond.
_COUNTERS = {
    0x4: pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP,
    0x20: pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN,
}
_MHZ = 1_000_000


@dataclass(frozen=True)
class Reading:
    """State of a device during and after a run; None if unknown.

    `throttle_reasons` is a bit mask of `THROTTLE_REASONS` active during the run. The last three
    fields are for a CPU. They are the CPU time of the process's other threads during the run (about
    0 for a product on one thread), and the core's clock before and after the run.
    """

    sm_clock_hz: int | None = None
    memory_clock_hz: int | None = None
    temperature_celsius: int | None = None
    power_w: float | None = None
    throttle_reasons: int | None = None
    other_threads_s: float | None = None
    cpu_clock_before_hz: int | None = None
    cpu_clock_after_hz: int | None = None


class Telemetry(Protocol):
    """Observes a device during a run."""

    def begin(self) -> None:
        """Store the state before the run."""

    def end(self) -> Reading:
        """Return the state after the run and the changes since `begin`."""


class AssignedTelemetry:
    """For a device without counters: its session assigns `reading` during a run."""

    def __init__(self) -> None:
        self.reading = Reading()

    def begin(self) -> None:
        """Discard the reading of the run before."""
        self.reading = Reading()

    def end(self) -> Reading:
        """Return the reading assigned since `begin`."""
        return self.reading


class NvmlTelemetry:
    """Reads a GPU through NVML between runs, never during a timed run.

    Counters of throttled time reveal software throttling in any part of a run; hardware throttling
    is seen only if it is still active at the end.
    """

    def __init__(self, pci_bus_id: str) -> None:
        pynvml.nvmlInit()
        self._handle = pynvml.nvmlDeviceGetHandleByPciBusId(pci_bus_id.encode())
        self._before: dict[int, int | None] = {}

    def begin(self) -> None:
        """Store the counters of throttled time."""
        self._before = self._throttled_ns()

    def end(self) -> Reading:
        """Return clocks, temperature, power and the throttle reasons since `begin`."""
        throttled = self._reasons()
        for bit, after in self._throttled_ns().items():
            before = self._before.get(bit)
            if after is not None and before is not None and after > before:
                throttled = (throttled or 0) | bit
        sm_mhz = self._ask(pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_SM)
        memory_mhz = self._ask(pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_MEM)
        power_mw = self._ask(pynvml.nvmlDeviceGetPowerUsage)
        return Reading(
            None if sm_mhz is None else sm_mhz * _MHZ,
            None if memory_mhz is None else memory_mhz * _MHZ,
            self._ask(pynvml.nvmlDeviceGetTemperature, pynvml.NVML_TEMPERATURE_GPU),
            None if power_mw is None else power_mw / 1000,
            throttled,
        )

    def energy_j(self) -> float | None:
        """Return the GPU's energy in J since the driver was loaded; None without a counter."""
        millijoules = self._ask(pynvml.nvmlDeviceGetTotalEnergyConsumption)
        return None if millijoules is None else millijoules / 1e3

    def _reasons(self) -> int | None:
        active = self._ask(pynvml.nvmlDeviceGetCurrentClocksEventReasons)
        return None if active is None else int(active) & sum(THROTTLE_REASONS)

    def _throttled_ns(self) -> dict[int, int | None]:
        found: dict[int, int | None] = {}
        for bit, field in _COUNTERS.items():
            values = self._ask(pynvml.nvmlDeviceGetFieldValues, [field])
            known = values is not None and values[0].nvmlReturn == pynvml.NVML_SUCCESS
            found[bit] = int(values[0].value.ullVal) if known else None
        return found

    def _ask(self, function: Any, *arguments: Any) -> Any:
        try:
            return function(self._handle, *arguments)
        except pynvml.NVMLError:
            return None
