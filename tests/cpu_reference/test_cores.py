"""The CPUs that a process may use, as Linux reports them."""

import hashlib
import os
import threading
import time

import pytest

from cpu_reference.cores import caches, granted_cpus, usable_threads, wait_until_alone


@pytest.fixture
def host(tmp_path, monkeypatch):
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


def quota(folder, quota_us, period_us):
    values = {"quota": quota_us, "period": period_us}
    return {f"{GROUPS}/{folder}/cpu.cfs_{key}_us": f"{value}\n" for key, value in values.items()}


def limited(own, limits=()):
    files = {f"{GROUPS}/{folder}cpu.max": f"{text}\n" for folder, text in dict(limits).items()}
    return {SELF: f"0::/{own}\n"} | files


@pytest.mark.parametrize(
    ("files", "granted", "threads"),
    [
        ({}, None, 8),
        (limited(""), None, 8),
        (limited("", {"": "max 100000"}), None, 8),
        (limited("", {"": "100000 0"}), None, 8),
        (limited("", {"": "250000 100000"}), 2.5, 2),
        (limited("", {"": "50000 100000"}), 0.5, 1),
        (limited("", {"": "6400000 100000"}), 64, 8),
        # Nested groups: the smallest limit applies, at any level.
        (limited("a/b", {"a/b/": "max 100000", "a/": "300000 100000", "": "7 1"}), *(3, 3)),
        # The path is the host's; only its top is mounted here.
        (limited("docker/0123", {"": "400000 100000"}), 4, 4),
        (
            {SELF: VERSION_1}
            | quota("cpu/job/step", -1, 100000)
            | quota("cpu/job", 150000, 50000)
            | quota("memory/job", 1, 50000),
            *(3, 3),
        ),
    ],
)
def test_usable_threads_are_limited_by_affinity_and_cpu_quota(host, files, granted, threads):
    root = host(**files)
    assert granted_cpus(root) == granted
    assert usable_threads(root) == threads


def cache_files(index, level, kind, size, sharers="0-1"):
    folder = f"sys/devices/system/cpu/cpu0/cache/index{index}"
    names = {"level": level, "type": kind, "size": size, "shared_cpu_list": sharers}
    return {f"{folder}/{name}": f"{text}\n" for name, text in names.items()}


def test_only_data_caches_are_listed_and_the_nearest_is_first(host):
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


def test_caches_that_linux_does_not_describe_are_omitted(host):
    for files in ({}, cache_files(0, 1, "Data", ""), cache_files(0, "", "Data", "48K")):
        assert caches(host(**files)) == []


def _waits_s(limit_s):
    begin = time.perf_counter()
    wait_until_alone(limit_s)
    return time.perf_counter() - begin


def test_a_run_waits_until_other_threads_are_idle():
    """The thread computes without the interpreter's lock, as a BLAS does."""
    data = b"x" * (64 << 20)
    busy = threading.Thread(target=hashlib.pbkdf2_hmac, args=("sha256", data, b"salt", 300_000))
    wait_until_alone()
    busy.start()
    # At first it may still wait for the lock.
    assert any(_waits_s(0.05) >= 0.05 for _ in range(100))
    assert busy.is_alive()
    wait_until_alone(60)
    assert not busy.is_alive()
    assert 1 <= usable_threads() <= len(os.sched_getaffinity(0))
