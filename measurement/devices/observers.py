"""Observers: what a device records during a measurement, in addition to times.

A device calls the observers of a measurement before, during and after it, but does not depend on
what they observe: clocks, temperature, throttling, energy.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from statistics import fmean
from typing import Any

import pynvml

from measurement.devices.errors import CellError
from measurement.recording.throttling import THROTTLE_REASONS

# Counters of throttled time since the driver was loaded, in ns. NVML returns these two at once;
# reading the counters for hardware reasons takes half a millisecond.
_COUNTERS = {
    0x4: pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP,
    0x20: pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN,
}
_MHZ = 1_000_000


class Observer:
    """Observes one measurement; its results are available afterwards."""

    def before(self) -> None:
        """Prepare the observation, or store the state before the measurement."""

    def during(self) -> None:
        """Read the state; a device calls this repeatedly while it waits (`load`, `idle`)."""

    def after(self) -> None:
        """Store the state after the measurement."""

    def results(self) -> dict[str, Any]:
        """Return the results by name."""
        return {}


@dataclass(frozen=True)
class Observers:
    """The observers of a device: those of timed `runs`, and a function that makes one of energy.

    `energy` gets the seconds to discard at the start; None: energy is not measured.
    """

    runs: tuple[Observer, ...] = ()
    energy: Callable[[float], Observer] | None = None


@contextmanager
def observed(observers: Iterable[Observer]) -> Iterator[None]:
    """Observe the measurement in this block; if it fails, there are no results."""
    for observer in observers:
        observer.before()
    yield
    for observer in observers:
        observer.after()


def results(observers: Iterable[Observer]) -> dict[str, Any]:
    """Return the results of all observers by name."""
    return {name: value for one in observers for name, value in one.results().items()}


@dataclass(frozen=True)
class Reading:
    """What observers read about a timed run; None if unknown.

    `throttle_reasons` is a bit mask of the `THROTTLE_REASONS` that were active during the run. The
    last three fields are for a CPU: the CPU time of the process's other threads during the run
    (about 0 for a product on one thread), and the core's clock before and after the run.
    """

    sm_clock_hz: int | None = None
    memory_clock_hz: int | None = None
    temperature_celsius: int | None = None
    power_w: float | None = None
    throttle_reasons: int | None = None
    other_threads_s: float | None = None
    cpu_clock_before_hz: int | None = None
    cpu_clock_after_hz: int | None = None


class CpuTelemetry(Observer):
    """Measures the core's clock by `clock_hz`, and the CPU time of the process's other threads."""

    def __init__(self, clock_hz: Callable[[], float]) -> None:
        self._clock_hz = clock_hz
        self._clocks_hz, self._others_ns = (0.0, 0.0), 0

    def before(self) -> None:
        """Measure the clock, then store the CPU time so far."""
        self._clocks_hz = (self._clock_hz(), 0.0)
        self._others_ns = _other_threads_ns()

    def after(self) -> None:
        """Compute the CPU time since `before`, then measure the clock."""
        self._others_ns = _other_threads_ns() - self._others_ns
        self._clocks_hz = (self._clocks_hz[0], self._clock_hz())

    def results(self) -> dict[str, Any]:
        """Return the fields of a `Reading`."""
        return {
            "other_threads_s": max(0, self._others_ns) / 1e9,
            "cpu_clock_before_hz": round(self._clocks_hz[0]),
            "cpu_clock_after_hz": round(self._clocks_hz[1]),
        }


def _other_threads_ns() -> int:
    """Return the CPU time of all threads of this process except the calling one."""
    return time.process_time_ns() - time.thread_time_ns()


class NvmlTelemetry(Observer):
    """Reads a GPU through NVML between runs, never during a timed run.

    Counters of throttled time reveal software throttling in any part of a run; hardware throttling
    is seen only if it is still active at the end.
    """

    def __init__(self, pci_bus_id: str) -> None:
        pynvml.nvmlInit()
        self._handle = pynvml.nvmlDeviceGetHandleByPciBusId(pci_bus_id.encode())
        self._before: dict[int, int | None] = {}
        self._results: dict[str, Any] = {}

    def before(self) -> None:
        """Store the counters of throttled time."""
        self._before = self._throttled_ns()

    def after(self) -> None:
        """Read clocks, temperature, power and the throttle reasons since `before`."""
        throttled = self._reasons()
        for bit, after in self._throttled_ns().items():
            before = self._before.get(bit)
            if after is not None and before is not None and after > before:
                throttled = (throttled or 0) | bit
        memory_mhz = self._ask(pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_MEM)
        power_mw = self._ask(pynvml.nvmlDeviceGetPowerUsage)
        celsius = self._ask(pynvml.nvmlDeviceGetTemperature, pynvml.NVML_TEMPERATURE_GPU)
        self._results = {
            "sm_clock_hz": self.sm_clock_hz(),
            "memory_clock_hz": None if memory_mhz is None else memory_mhz * _MHZ,
            "temperature_celsius": celsius,
            "power_w": None if power_mw is None else power_mw / 1000,
            "throttle_reasons": throttled,
        }

    def results(self) -> dict[str, Any]:
        """Return the fields of a `Reading`."""
        return self._results

    def sm_clock_hz(self) -> int | None:
        """Return the current clock of the multiprocessors; None if unknown."""
        sm_mhz = self._ask(pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_SM)
        return None if sm_mhz is None else sm_mhz * _MHZ

    def energy_j(self) -> float | None:
        """Return the GPU's energy in J since the driver was loaded; None without a counter."""
        millijoules = self._ask(pynvml.nvmlDeviceGetTotalEnergyConsumption)
        return None if millijoules is None else millijoules / 1e3

    def _reasons(self) -> int | None:
        active = self._ask(pynvml.nvmlDeviceGetCurrentClocksEventReasons)
        return None if active is None else int(active) & sum(THROTTLE_REASONS)

    def _throttled_ns(self) -> dict[int, int | None]:
        throttled_ns: dict[int, int | None] = {}
        for bit, field in _COUNTERS.items():
            values = self._ask(pynvml.nvmlDeviceGetFieldValues, [field])
            is_known = values is not None and values[0].nvmlReturn == pynvml.NVML_SUCCESS
            throttled_ns[bit] = int(values[0].value.ullVal) if is_known else None
        return throttled_ns

    def _ask(self, function: Any, *arguments: Any) -> Any:
        try:
            return function(self._handle, *arguments)
        except pynvml.NVMLError:
            return None


class EnergyObserver(Observer):
    """Reads an energy counter and a clock during a load or idle time.

    It raises CellError if the GPU has no counter.

    The counter of an H200 is updated only every 0.1 s, so intervals start and end at an update.
    """

    def __init__(
        self,
        energy_j: Callable[[], float | None],
        clock_hz: Callable[[], int | None],
        discard_s: float,
    ) -> None:
        """Use the counter `energy_j`; discard readings in the first `discard_s` seconds."""
        self._energy_j, self._clock_hz, self._discard_s = energy_j, clock_hz, discard_s
        self._since_s = 0.0
        self._readings: list[tuple[float, float]] = []
        self._clocks_hz: list[int] = []

    def before(self) -> None:
        """Clear the readings."""
        self._since_s = time.perf_counter() + self._discard_s
        self._readings, self._clocks_hz = [], []

    def during(self) -> None:
        """Read the counter and the clock."""
        now_s, energy_j = time.perf_counter(), self._energy_j()
        if energy_j is None:
            raise CellError("the GPU has no energy counter")
        if now_s > self._since_s:
            self._readings.append((now_s, energy_j))
            if clock_hz := self._clock_hz():
                self._clocks_hz.append(clock_hz)

    def results(self) -> dict[str, Any]:
        """Return the time between two counter updates, and the mean power and clock in it."""
        interval = steps(self._readings)
        if interval is None:
            raise CellError("the GPU's energy counter does not change")
        duration_s, energy_j = interval
        clock_hz = round(fmean(self._clocks_hz)) if self._clocks_hz else None
        power_w = energy_j / duration_s
        return {"duration_s": duration_s, "power_w": power_w, "sm_clock_hz": clock_hz}


def steps(readings: Sequence[tuple[float, float]]) -> tuple[float, float] | None:
    """Return the seconds and the joules between the first and the last update of an energy counter.

    `readings` are (time in seconds, joules). None if there are fewer than two updates.
    """
    updates = [reading for before, reading in pairwise(readings) if reading[1] != before[1]]
    if len(updates) < 2:
        return None
    (begin_s, begin_j), (end_s, end_j) = updates[0], updates[-1]
    return end_s - begin_s, end_j - begin_j


def gpu_observers(pci_bus_id: str) -> Observers:
    """Return the observers of a GPU."""
    telemetry = NvmlTelemetry(pci_bus_id)
    return Observers(
        (telemetry,), partial(EnergyObserver, telemetry.energy_j, telemetry.sm_clock_hz)
    )
