"""Telemetry: what NVML tells, in SI units, and throttling in any part of a run."""

from types import SimpleNamespace

import pytest

from measurement.devices import telemetry
from measurement.devices.telemetry import NotedTelemetry, NvmlTelemetry, Reading

POWER_CAP, THERMAL, IDLE, SLOWDOWN = 0x4, 0x20, 0x1, 0x8


@pytest.fixture
def card(monkeypatch):
    """A GPU whose state can be set; `silent` names what it does not tell."""
    state = SimpleNamespace(reasons=IDLE, throttled_ns={101: 5, 102: 7}, silent=set())

    class UnknownError(Exception):
        pass

    def tell(name, value):
        if name in state.silent:
            raise UnknownError
        return value

    def counters(_, fields):
        if "counters" in state.silent:
            return [SimpleNamespace(nvmlReturn=3, value=None)]
        value = SimpleNamespace(ullVal=state.throttled_ns[fields[0]])
        return [SimpleNamespace(nvmlReturn=0, value=value)]

    nvml = SimpleNamespace(
        NVMLError=UnknownError,
        NVML_SUCCESS=0,
        NVML_CLOCK_SM=1,
        NVML_CLOCK_MEM=2,
        NVML_TEMPERATURE_GPU=0,
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByPciBusId={b"0000:01:00.0": "card"}.__getitem__,
        nvmlDeviceGetClockInfo=lambda _, which: tell("clock", {1: 1980, 2: 2619}[which]),
        nvmlDeviceGetTemperature=lambda *_: tell("temperature", 41),
        nvmlDeviceGetPowerUsage=lambda _: tell("power", 345_678),
        nvmlDeviceGetCurrentClocksEventReasons=lambda _: tell("reasons", state.reasons),
        nvmlDeviceGetFieldValues=counters,
    )
    monkeypatch.setattr(telemetry, "pynvml", nvml)
    monkeypatch.setattr(telemetry, "_COUNTERS", {POWER_CAP: 101, THERMAL: 102})
    return state


def test_a_reading_is_in_si_units(card):
    watch = NvmlTelemetry("0000:01:00.0")
    watch.begin()
    assert watch.end() == Reading(1_980_000_000, 2_619_000_000, 41, 345.678, 0)


def test_throttling_that_ended_within_the_pass_is_seen(card):
    watch = NvmlTelemetry("0000:01:00.0")
    watch.begin()
    card.throttled_ns[101] += 1
    assert watch.end().throttle_reasons == POWER_CAP
    watch.begin()
    assert watch.end().throttle_reasons == 0, "what was before does not count"
    card.throttled_ns[102] += 1
    watch.begin()
    card.reasons = SLOWDOWN | IDLE
    assert watch.end().throttle_reasons == SLOWDOWN, "between passes does not count either"


def test_what_a_card_does_not_tell_is_unknown(card):
    watch = NvmlTelemetry("0000:01:00.0")
    card.silent = {"clock", "temperature", "power", "reasons", "counters"}
    watch.begin()
    assert watch.end() == Reading()
    card.silent = {"reasons"}
    watch.begin()
    card.throttled_ns[102] += 1
    assert watch.end().throttle_reasons == THERMAL


def test_a_cpu_tells_what_its_session_noted_in_the_pass():
    watch = NotedTelemetry()
    watch.begin()
    watch.reading = Reading(other_threads_s=0.5)
    assert watch.end() == Reading(other_threads_s=0.5)
    watch.begin()
    assert watch.end() == Reading()
