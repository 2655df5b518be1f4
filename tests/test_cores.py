"""How many CPUs a process may use, as the files of the kernel tell it."""

import os

import pytest

from cpu_reference.cores import clock_hz, granted_cpus, usable_threads


@pytest.fixture
def host(tmp_path, monkeypatch):
    """A file system to be filled, seen from a process that may run on 8 CPUs."""
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
        # A group in a group: the least counts, wherever it is set.
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
        # The path is the host's; here only the top of it is mounted.
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


def test_clock_is_the_mean_of_the_usable_cpus(host):
    names = [f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq" for cpu in (0, 7, 8)]
    root = host(**dict(zip(names, ["2000000\n", "3000000\n", "9000000\n"], strict=True)))
    assert clock_hz(root) == 2.5e9


def test_clock_of_a_host_without_frequency_files(host):
    assert clock_hz(host()) is None
    info = "model name\t: X: Y\ncpu MHz\t\t: 2600.5\n\ncpu MHz\t\t: 2599.5\n"
    assert clock_hz(host(**{"proc/cpuinfo": info})) == 2.6e9
