"""Concurrent jobs: the barrier, and the first error."""

import threading
import time

import pytest

from measurement.recorder.at_once import run_at_once


def test_who_is_first_waits_for_the_others():
    seen = []

    def job(name, pause_s, meet):
        time.sleep(pause_s)
        seen.append(f"{name} came")
        meet()
        seen.append(f"{name} went on")

    run_at_once([lambda meet: job("a", 0.0, meet), lambda meet: job("b", 0.02, meet)])
    assert seen[:2] == ["a came", "b came"]
    assert sorted(seen[2:]) == ["a went on", "b went on"]


def test_a_fault_is_raised_though_others_wait():
    waits = threading.Event()

    def fail(meet):
        waits.wait()
        raise ValueError("no card")

    def wait(meet):
        waits.set()
        meet()

    with pytest.raises(ValueError, match="no card"):
        run_at_once([wait, fail])
