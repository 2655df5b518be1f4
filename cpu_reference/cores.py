"""The CPUs that this process may use, their caches, and the threads of this process."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# The cores of this process, read before any thread is bound to one.
CORES = os.sched_getaffinity(0)
_ROOT = Path("/")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_POLL_S = 0.001
_ASLEEP_S = 1.0


def usable_threads(root: Path = _ROOT) -> int:
    """Return how many threads can run at once (at least 1); the study calls this "all cores".

    The result is the number of CPUs in the process's affinity mask, limited by the CPU quota of its
    control group. More threads than the quota's whole CPUs would be throttled in each period.
    `root` is the root of the file system.
    """
    cpus = len(os.sched_getaffinity(0))
    granted = granted_cpus(root)
    return cpus if granted is None else max(1, min(cpus, int(granted)))


def granted_cpus(root: Path = _ROOT) -> float | None:
    """Return the CPU quota of this process's control groups, in CPUs; None without a limit.

    It is the minimum over the process's group and its parents: cpu.max in control groups version 2,
    cpu.cfs_quota_us in version 1.
    """
    return min((limit for group in _groups(root) if (limit := _limit(group))), default=None)


def caches(root: Path = _ROOT) -> list[dict[str, int]]:
    """Return the data caches of the first usable CPU, nearest first; empty if Linux lists none.

    Each has its level, its size in bytes and the number of CPUs that share it.
    """
    cpu = min(os.sched_getaffinity(0))
    data_caches = []
    for folder in (root / f"sys/devices/system/cpu/cpu{cpu}/cache").glob("index*"):
        level, kind, size = (_read(folder / name).strip() for name in ("level", "type", "size"))
        number, unit = size[:-1], _UNITS.get(size[-1:])
        if kind in ("Data", "Unified") and level.isdigit() and number.isdigit() and unit:
            sharers = _cpus(_read(folder / "shared_cpu_list").strip())
            data_caches.append(
                {"level": int(level), "bytes": int(number) * unit, "shared_by": max(1, sharers)}
            )
    return sorted(data_caches, key=lambda cache: cache["level"])


def _cpus(text: str) -> int:
    """Return the number of CPUs in a Linux CPU list: 4 for ``0-2,8``."""
    ranges = [part.partition("-") for part in text.split(",") if part]
    return sum(int(last or first) - int(first) + 1 for first, _, last in ranges)


def keep_to_core(index: int) -> None:
    """Bind this thread to one CPU of `CORES`; index 0 is the last one."""
    os.sched_setaffinity(0, {sorted(CORES)[-1 - index % len(CORES)]})


@contextmanager
def all_cores() -> Iterator[None]:
    """Let this thread, and threads that it starts, use all `CORES` within the block."""
    kept = os.sched_getaffinity(0)
    os.sched_setaffinity(0, CORES)
    try:
        yield
    finally:
        os.sched_setaffinity(0, kept)


def wait_until_alone(limit_s: float = _ASLEEP_S) -> None:
    """Wait until no other thread of this process runs, at most `limit_s` seconds.

    Idle BLAS and OpenMP threads spin for about 0.1 s and occupy CPUs that a timed run needs.
    """
    until = time.perf_counter() + limit_s
    while _busy_other_threads() and time.perf_counter() < until:
        time.sleep(_POLL_S)


def _busy_other_threads() -> bool:
    """Return whether another thread of this process is running (state R in proc(5), stat)."""
    this_thread = str(threading.get_native_id())
    stats = (
        _read(task / "stat")
        for task in Path("/proc/self/task").iterdir()
        if task.name != this_thread
    )
    # The state follows the name, which is in brackets and may itself contain brackets.
    return any(stat.rpartition(")")[2].split()[:1] == ["R"] for stat in stats)


def _groups(root: Path) -> Iterator[Path]:
    """Yield the folders of the process's CPU control groups and of their parents.

    In a container the path of a group may be that on the host, of which only the top is mounted.
    Folders that do not exist set no limit.
    """
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers or "cpu" in controllers.split(","):
            mount = root / "sys/fs/cgroup" / ("cpu" if controllers else "")
            relative = Path(path.strip("/"))
            yield from (mount / above for above in (relative, *relative.parents))


def _limit(group: Path) -> float | None:
    """Return the CPU quota of one group in CPUs; None without a limit."""
    quota, _, period = _read(group / "cpu.max").strip().partition(" ")  # control groups version 2
    if not quota:
        quota = _read(group / "cpu.cfs_quota_us").strip()  # control groups version 1
        period = _read(group / "cpu.cfs_period_us").strip()
    if not (quota.isdecimal() and period.isdecimal() and int(period)):  # "max", -1, or no file
        return None
    return int(quota) / int(period)


def _read(path: Path) -> str:
    """Return the text of a file; empty if it is not readable."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
