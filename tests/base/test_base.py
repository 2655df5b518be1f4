"""Atomic writes, errors of the system in one line, and progress lines."""

import errno
import io
import os
import re
import sys
import time
from functools import partial

import pytest

from base import progress
from base.command_line import duration
from base.errors import StudyError, exit_status
from base.files import atomic_writer, date_not_ahead, write_atomic
from base.progress import Progress


def test_an_atomic_write_follows_links_and_never_replaces_a_device_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("file")
    write_atomic(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "text"
    with pytest.raises(StudyError, match=r"/pipe: is not a regular file; name another file$"):
        write_atomic(tmp_path / "pipe", "text")
    assert len(list(tmp_path.iterdir())) == 3


def test_an_error_of_the_system_while_writing_names_the_file(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TMPDIR", "/full")

    def write(error):
        with atomic_writer(tmp_path / "file"):
            raise error

    no_space = "No space left on device"
    remedy = "; free space there or in /full (TMPDIR), and rerun the same command"
    errors = {
        f"{tmp_path / 'file'}: {no_space}{remedy}": OSError(errno.ENOSPC, no_space),
        f"mine.cu: fatal error: {no_space}{remedy}": StudyError(
            f"mine.cu: fatal error: {no_space}"
        ),
        "not enough memory (8 GB); end other programs, or raise `ulimit -v`": MemoryError("8 GB"),
        "not enough memory; end other programs, or raise `ulimit -v`": MemoryError(),
        "input or output: other": OSError("other"),
    }
    for line, error in errors.items():
        assert exit_status(partial(write, error)) == 2
        assert capsys.readouterr().err == f"error: {line}\n"
        assert list(tmp_path.iterdir()) == []
    assert exit_status(partial(write_atomic, "/proc/mine", "")) == 2, "no temporary file there"
    assert re.match("error: /proc/mine: .*; correct it, or use another", capsys.readouterr().err)


def test_a_file_with_a_date_in_the_future_is_dated_now(tmp_path):
    ahead, behind = tmp_path / "ahead", tmp_path / "behind"
    for path, seconds in ((ahead, 3600), (behind, -3600)):
        path.touch()
        os.utime(path, (time.time() + seconds,) * 2)
    before = behind.stat()
    date_not_ahead([str(ahead), str(behind), str(tmp_path / "gone")])
    assert ahead.stat().st_mtime <= time.time()
    assert behind.stat() == before


@pytest.fixture
def clock(monkeypatch):
    """A clock whose time is the only element."""
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_progress_prints_at_most_one_line_every_two_seconds(clock, capsys):
    shown = Progress("gpu0: checking", 40)
    shown.show("block N=64", 0, lambda: None)
    clock[0] += 1.9
    shown.show("block N=64", 5, lambda: pytest.fail("needless estimate"))
    clock[0] += 0.2
    shown.show("block N=128", 7, lambda: 61.9)
    clock[0] += 120
    shown.end()
    assert capsys.readouterr().err.splitlines() == [
        "gpu0: checking: 0/40 cells · block N=64",
        "gpu0: checking: 7/40 cells, at most 1:01 left · block N=128",
        "gpu0: checking: 40/40 cells in 2:02",
    ]


def test_on_a_terminal_the_progress_line_is_rewritten_in_place(clock, monkeypatch):
    stream = io.StringIO()
    stream.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", stream)
    shown = Progress("cpu", 2)
    shown.show("block N=64", 0, lambda: 5.0)
    shown.end()
    lines = ["", "cpu: 0/2 cells, at most 0:05 left · block N=64", "cpu: 2/2 cells in 0:00\n"]
    assert stream.getvalue().split("\r\x1b[2K") == lines


@pytest.mark.parametrize(("total", "start_s"), [(40, 30.0), (40, 0.0), (5, 30.0)])
def test_the_estimated_remaining_time_of_equal_items_never_jumps(clock, capsys, total, start_s):
    shown = Progress("accesses", total)
    clock[0] += start_s
    for done in range(1, total + 1):
        clock[0] += 4
        shown.show_share("block", done)
    found = re.findall(r"(\d+)/.* about (\d+):(\d\d) left", capsys.readouterr().err)
    assert len(found) > total / 2
    assert all(int(minutes) * 60 + int(s) == 4 * (total - int(n)) for n, minutes, s in found)


def test_durations_are_printed_in_a_readable_unit():
    texts = {1.0: "1.000 s", 0.9996: "999.6 ms", 0.00125: "1.250 ms", 2e-8: "0.02000 µs"}
    assert {seconds: duration(seconds) for seconds in texts} == texts
