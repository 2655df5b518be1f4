"""What a GPU tells of itself while it is measured: clocks, temperature, power, throttling."""

from dataclasses import dataclass
from typing import Any, Protocol

import pynvml

from measurement.recording.throttling import THROTTLE_REASONS

# Time spent throttled since the driver was loaded, in ns. NVML answers these two at once; asking
# for the counters of the hardware's reasons takes half a millisecond.
_COUNTERS = {
    0x4: pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP,
    0x20: pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN,
}
_MHZ = 1_000_000


@dataclass(frozen=True)
class Reading:
    """State of a device in and after a run; None where it is not known.

    `throttle_reasons` is a bit mask of `THROTTLE_REASONS` that were active during the run. The
    last three are of a CPU: the CPU time that other threads of the process took during the run
    (none where a product runs on one), and the clock of the core right before and right after it.
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
    """Watches a device during a run."""

    def begin(self) -> None:
        """Note the state before the run."""

    def end(self) -> Reading:
        """Return the state after the run and what happened since `begin`."""


class NotedTelemetry:
    """For a device that is asked nothing: what its session noted around a run, if anything."""

    def __init__(self) -> None:
        self.reading = Reading()

    def begin(self) -> None:
        """Forget the run before."""
        self.reading = Reading()

    def end(self) -> Reading:
        """Return what was noted since `begin`."""
        return self.reading


class NvmlTelemetry:
    """Reads a GPU through NVML, between runs: nothing is asked of it while one is timed.

    Reasons that last for part of a run are seen by the counters of throttled time that grow with
    it, and those of the hardware if they still hold at its end.
    """

    def __init__(self, pci_bus_id: str) -> None:
        pynvml.nvmlInit()
        self._card = pynvml.nvmlDeviceGetHandleByPciBusId(pci_bus_id.encode())
        self._before: dict[int, int | None] = {}

    def begin(self) -> None:
        """Note the counters of throttled time."""
        self._before = self._throttled_ns()

    def end(self) -> Reading:
        """Read the GPU."""
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
        """Return the energy that the GPU has taken since its driver was loaded, if it tells."""
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
            return function(self._card, *arguments)
        except pynvml.NVMLError:
            return None
