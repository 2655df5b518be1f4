"""Telemetry: NVML's values in SI units, and throttling in any part of a run."""

import pytest

from measurement.devices import telemetry
from measurement.devices.telemetry import AssignedTelemetry, NvmlTelemetry, Reading
from tests.support.fake_cuda import FakeNvml

POWER_CAP, THERMAL, IDLE, SLOWDOWN = 0x4, 0x20, 0x1, 0x8


@pytest.fixture
def nvml(monkeypatch):
    fake = FakeNvml()
    fake.throttled_ns = {telemetry._COUNTERS[POWER_CAP]: 5, telemetry._COUNTERS[THERMAL]: 7}
    fake.values["CurrentClocksEventReasons"] = lambda: IDLE
    monkeypatch.setattr(telemetry, "pynvml", fake)
    return fake


def test_a_reading_is_in_si_units(nvml):
    watch = NvmlTelemetry("0000:01:00.0")
    watch.begin()
    assert watch.end() == Reading(1_980_000_000, 2_619_000_000, 41, 345.678, 0)


def test_throttling_that_ended_within_the_pass_is_seen(nvml):
    watch = NvmlTelemetry("0000:01:00.0")
    watch.begin()
    nvml.throttled_ns[telemetry._COUNTERS[POWER_CAP]] += 1
    assert watch.end().throttle_reasons == POWER_CAP
    watch.begin()
    assert watch.end().throttle_reasons == 0, "what was before does not count"
    nvml.throttled_ns[telemetry._COUNTERS[THERMAL]] += 1
    watch.begin()
    nvml.values["CurrentClocksEventReasons"] = lambda: SLOWDOWN | IDLE
    assert watch.end().throttle_reasons == SLOWDOWN, "between passes does not count either"


def test_what_a_card_does_not_tell_is_unknown(nvml):
    watch = NvmlTelemetry("0000:01:00.0")
    counters = nvml.values["FieldValues"]
    nvml.values, throttled_ns, nvml.throttled_ns = {}, nvml.throttled_ns, {}
    watch.begin()
    assert watch.end() == Reading()
    nvml.values["FieldValues"] = counters
    watch.begin()
    assert watch.end() == Reading()
    nvml.throttled_ns = throttled_ns
    watch.begin()
    nvml.throttled_ns[telemetry._COUNTERS[THERMAL]] += 1
    assert watch.end().throttle_reasons == THERMAL


def test_a_cpu_tells_what_its_session_noted_in_the_pass():
    watch = AssignedTelemetry()
    watch.begin()
    watch.reading = Reading(other_threads_s=0.5)
    assert watch.end() == Reading(other_threads_s=0.5)
    watch.begin()
    assert watch.end() == Reading()
