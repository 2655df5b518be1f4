"""The CPUs that a process may use, as Linux reports them."""

import hashlib
import os
import threading
import time

import pytest

from cpu_reference.cores import caches, granted_cpus, usable_threads, wait_until_alone


@pytest.fixture
def host(tmp_path, monkeypatch):
    """A function that writes the files of a host whose process may use 8 CPUs."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))

    def fill(**files):
        for path, text in files.items():
            target = tmp_path / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        return tmp_path

    return fill


GROUPS = "sys/fs/cgroup"
SELF = "proc/self/cgroup"
VERSION_1 = "5:memory:/job\n2:cpu,cpuacct:/job/step\n1:name=systemd:/\n0::/job\n"


@pytest.mark.parametrize(
    ("files", "granted", "threads"),
    [
        ({}, None, 8),
        ({SELF: "0::/\n"}, None, 8),
        ({SELF: "0::/\n", f"{GROUPS}/cpu.max": "max 100000\n"}, None, 8),
        ({SELF: "0::/\n", f"{GROUPS}/cpu.max": "250000 100000\n"}, 2.5, 2),
        ({SELF: "0::/\n", f"{GROUPS}/cpu.max": "50000 100000\n"}, 0.5, 1),
        ({SELF: "0::/\n", f"{GROUPS}/cpu.max": "6400000 100000\n"}, 64, 8),
        # Nested groups: the smallest limit applies, at any level.
        (
            {
                SELF: "0::/a/b\n",
                f"{GROUPS}/a/b/cpu.max": "max 100000\n",
                f"{GROUPS}/a/cpu.max": "300000 100000\n",
                f"{GROUPS}/cpu.max": "700000 100000\n",
            },
            3,
            3,
        ),
        # The path is the host's; only its top is mounted here.
        ({SELF: "0::/docker/0123\n", f"{GROUPS}/cpu.max": "400000 100000\n"}, 4, 4),
        (
            {
                SELF: VERSION_1,
                f"{GROUPS}/cpu/job/step/cpu.cfs_quota_us": "-1\n",
                f"{GROUPS}/cpu/job/step/cpu.cfs_period_us": "100000\n",
                f"{GROUPS}/cpu/job/cpu.cfs_quota_us": "150000\n",
                f"{GROUPS}/cpu/job/cpu.cfs_period_us": "50000\n",
                f"{GROUPS}/memory/job/cpu.cfs_quota_us": "1\n",
                f"{GROUPS}/memory/job/cpu.cfs_period_us": "50000\n",
            },
            3,
            3,
        ),
    ],
    ids=[
        "nothing told",
        "no limit",
        "max",
        "part of a CPU more",
        "less than a CPU",
        "more than there are",
        "nested",
        "container",
        "version 1",
    ],
)
def test_threads_are_the_whole_cpus_that_are_granted(host, files, granted, threads):
    root = host(**files)
    assert granted_cpus(root) == granted
    assert usable_threads(root) == threads


def test_this_host_has_threads():
    assert 1 <= usable_threads() <= len(os.sched_getaffinity(0))


def cache_files(index, level, kind, size, sharers="0-1"):
    folder = f"sys/devices/system/cpu/cpu0/cache/index{index}"
    names = {"level": level, "type": kind, "size": size, "shared_cpu_list": sharers}
    return {f"{folder}/{name}": f"{text}\n" for name, text in names.items()}


def test_caches_for_data_are_told_nearest_first(host):
    root = host(
        **cache_files(3, 3, "Unified", "300M", "0-2,8,10-11"),
        **cache_files(0, 1, "Data", "48K", "0"),
        **cache_files(1, 1, "Instruction", "32K", "0"),
        **cache_files(2, 2, "Unified", "2048K", ""),
    )
    assert caches(root) == [
        {"level": 1, "bytes": 48 << 10, "shared_by": 1},
        {"level": 2, "bytes": 2 << 20, "shared_by": 1},
        {"level": 3, "bytes": 300 << 20, "shared_by": 6},
    ]


def test_caches_that_are_not_told_are_left_out(host):
    assert caches(host()) == []
    assert caches(host(**cache_files(0, 1, "Data", ""))) == []
    assert caches(host(**cache_files(0, "", "Data", "48K"))) == []


def _waits_s(limit_s):
    begin = time.perf_counter()
    wait_until_alone(limit_s)
    return time.perf_counter() - begin


def test_threads_at_work_are_waited_for():
    """The thread computes without the interpreter's lock, as a BLAS does."""
    data = b"x" * (64 << 20)
    busy = threading.Thread(target=hashlib.pbkdf2_hmac, args=("sha256", data, b"salt", 1_000_000))
    wait_until_alone()
    busy.start()
    # At first it may still wait for the lock.
    assert any(_waits_s(0.05) >= 0.05 for _ in range(100))
    assert busy.is_alive()
    wait_until_alone(60)
    assert not busy.is_alive()
