"""Telemetry in SI units, throttling in any part of a run, and energy from steps of a counter."""

import pytest

from measurement.devices import telemetry
from measurement.devices.energy import steps
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


def test_a_reading_is_in_si_units_and_shows_throttling_that_ended_within_the_run(nvml):
    watch = NvmlTelemetry("0000:01:00.0")
    watch.begin()
    assert watch.end() == Reading(1_980_000_000, 2_619_000_000, 41, 345.678, 0)
    watch.begin()
    nvml.throttled_ns[telemetry._COUNTERS[POWER_CAP]] += 1
    assert watch.end().throttle_reasons == POWER_CAP
    watch.begin()
    assert watch.end().throttle_reasons == 0, "throttling before the run does not count"
    nvml.throttled_ns[telemetry._COUNTERS[THERMAL]] += 1
    watch.begin()
    nvml.values["CurrentClocksEventReasons"] = lambda: SLOWDOWN | IDLE
    assert watch.end().throttle_reasons == SLOWDOWN, "nor does throttling between runs"


def test_what_a_gpu_does_not_report_is_unknown(nvml):
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


def test_the_telemetry_of_a_cpu_is_what_its_session_assigned_during_the_run():
    watch = AssignedTelemetry()
    watch.begin()
    watch.reading = Reading(other_threads_s=0.5)
    assert watch.end() == Reading(other_threads_s=0.5)
    watch.begin()
    assert watch.end() == Reading()


def test_seconds_and_joules_are_those_between_steps():
    readings = [(0.0, 5.0), (0.1, 5.0), (0.2, 7.0), (0.3, 7.0), (0.4, 11.0), (0.5, 17.0)]
    assert steps([*readings, (0.6, 17.0)]) == pytest.approx((0.3, 10.0))
    for joules in ([], [5.0], [5.0, 5.0, 5.0], [5.0, 5.0, 7.0]):
        assert steps(list(enumerate(joules))) is None, "fewer than two steps"
