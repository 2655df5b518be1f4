"""Work in a separate process: its result, its errors, and each of its limits."""

import os
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np
import psutil
import pytest

from base.errors import StudyError
from kernels.host_execution.limited import LimitReached, limited
from tests.support import ROOT

GIB = 2**30


def fails():
    raise StudyError("mine.cu:3: wrong")


def test_limited_work_returns_its_result_and_raises_its_error():
    assert limited(lambda: {"sums": np.arange(3)}, 10, GIB)["sums"].tolist() == [0, 1, 2]
    with pytest.raises(StudyError, match=r"^mine\.cu:3: wrong$"):
        limited(fails, 10, GIB)
    for number in (signal.SIGFPE, signal.SIGSEGV, signal.SIGKILL):
        with pytest.raises(StudyError, match=number.name):
            limited(lambda number=number: os.kill(os.getpid(), number), 10, GIB)


def test_temporary_files_of_killed_work_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def left_behind():
        tempfile.mkdtemp()
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(StudyError, match="SIGKILL"):
        limited(left_behind, 10, GIB)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize(
    "work", [lambda: time.sleep(60), lambda: subprocess.run(["sleep", "61.5"])]
)
def test_work_over_its_time_limit_is_ended_with_all_its_processes(work):
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    with pytest.raises(LimitReached, match=r"more than 0\.5 s"):
        limited(work, 0.5, GIB)
    left = {child.pid for child in psutil.Process().children(recursive=True)} - before
    assert not left
    assert "sleep 61.5" not in [
        " ".join(p.info["cmdline"] or []) for p in psutil.process_iter(["cmdline"])
    ]


def busy(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
    return "ended"


@pytest.mark.slow
def test_the_time_limit_counts_only_cpu_time():
    assert limited(lambda: time.sleep(1.5), 0.5, GIB) is None, "as if another program ran"
    assert limited(lambda: busy(0.3), 1.5, GIB) == "ended"
    begin = time.monotonic()
    with pytest.raises(LimitReached, match=r"more than 0\.5 s"):
        limited(lambda: busy(60), 0.5, GIB)
    assert time.monotonic() - begin < 30


@pytest.mark.slow
def test_work_over_its_memory_limit_is_ended():
    with pytest.raises(LimitReached, match=r"more than 0\.25 GiB"):
        limited(lambda: np.ones(GIB // 8).sum(), 10, GIB // 4)


def test_killing_the_process_also_ends_its_limited_work(tmp_path):
    code = (
        "import os, time; from pathlib import Path;"
        "from kernels.host_execution.limited import limited;"
        f"limited(lambda: (Path('{tmp_path}/pid').write_text(str(os.getpid())), time.sleep(60)),"
        "60, 2**30)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    end = time.monotonic() + 30
    while not ((tmp_path / "pid").exists() and (tmp_path / "pid").read_text()):
        assert time.monotonic() < end
        time.sleep(0.05)
    parent.kill()
    parent.wait()
    worker = int((tmp_path / "pid").read_text())
    while psutil.pid_exists(worker) and psutil.Process(worker).status() != "zombie":
        assert time.monotonic() < end
        time.sleep(0.05)


def test_limited_work_ends_when_nobody_reads_the_output():
    code = (
        "import sys, time; from base.errors import exit_status;"
        "from kernels.host_execution.limited import limited;"
        "sys.exit(exit_status(lambda: limited(lambda: time.sleep(60), 1, 2**30)))"
    )
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, stdout=writer, stderr=subprocess.PIPE
    )
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (0, b"")
