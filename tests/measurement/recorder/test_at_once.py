"""Concurrent jobs: the barrier, and the first error."""

import threading
import time

import pytest

from measurement.recorder.at_once import run_at_once


def test_the_first_waits_for_the_others_and_an_error_ends_the_wait():
    seen = []

    def job(name, pause_s, meet):
        time.sleep(pause_s)
        seen.append(f"{name} came")
        meet()
        seen.append(f"{name} went on")

    run_at_once([lambda meet: job("a", 0.0, meet), lambda meet: job("b", 0.02, meet)])
    assert seen[:2] == ["a came", "b came"]
    assert sorted(seen[2:]) == ["a went on", "b went on"]
    waits = threading.Event()

    def fail(meet):
        waits.wait()
        raise ValueError("no GPU")

    def wait(meet):
        waits.set()
        meet()

    with pytest.raises(ValueError, match="no GPU"):
        run_at_once([wait, fail])
