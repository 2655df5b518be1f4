"""The benchmark of many recordings: what a command takes is measured, and a failure is told."""

import sys

import pytest

from base.errors import StudyError
from benchmarks.many_recordings import cost, record
from measurement.recording.recording import read

_HOLDS = "import os, time; held = bytearray(os.urandom(1)) * 300_000_000; time.sleep(0.5)"


@pytest.mark.slow
def test_a_command_costs_its_seconds_and_the_memory_of_its_children():
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {_HOLDS!r}])"
    found = cost([sys.executable, "-c", child])
    assert 0.5 < found.wall_s < 30
    assert 300e6 < found.memory_bytes < 400e6


def test_a_command_that_fails_is_named_with_its_last_line():
    with pytest.raises(StudyError, match=r"-c import sys.*no such table"):
        cost([sys.executable, "-c", "import sys; sys.exit('no such table')"])


@pytest.mark.slow
def test_recordings_differ_and_are_written_once(tmp_path):
    first, second = (record(tmp_path, 2, number) for number in (0, 1))
    written = (first / "samples.csv.gz").stat().st_mtime_ns
    assert record(tmp_path, 2, 0) == first
    assert (first / "samples.csv.gz").stat().st_mtime_ns == written
    assert not read(first).samples["total_s"].equals(read(second).samples["total_s"])
