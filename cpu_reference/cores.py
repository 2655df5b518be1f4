"""How many CPUs this process may really use, what caches they have, and whether they are free."""

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path("/")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_POLL_S = 0.001
_ASLEEP_S = 1.0


def usable_threads(root: Path = _ROOT) -> int:
    """Return how many threads may run at once: what "all cores" means here, at least 1.

    That is the CPUs of the process's affinity, or fewer where its control group is granted less CPU
    time than that: threads beyond the whole CPUs granted would be stopped for a part of each
    period. `root` is where the file system begins.
    """
    cpus = len(os.sched_getaffinity(0))
    granted = granted_cpus(root)
    return cpus if granted is None else max(1, min(cpus, int(granted)))


def granted_cpus(root: Path = _ROOT) -> float | None:
    """Return the CPU time in a second that the control groups grant; None where none sets a limit.

    It is the least of the limits of the process's group and of those that this one is in (cpu.max
    of control groups version 2, cpu.cfs_quota_us of version 1).
    """
    return min((limit for group in _groups(root) if (limit := _limit(group))), default=None)


def caches(root: Path = _ROOT) -> list[dict[str, int]]:
    """Return the caches for data of the CPU on which this runs, nearest first; none if not told.

    Each has its level, its bytes, and by how many CPUs it is shared.
    """
    cpu = min(os.sched_getaffinity(0))
    found = []
    for folder in (root / f"sys/devices/system/cpu/cpu{cpu}/cache").glob("index*"):
        level, kind, size = (_read(folder / name).strip() for name in ("level", "type", "size"))
        number, unit = size[:-1], _UNITS.get(size[-1:])
        if kind in ("Data", "Unified") and level.isdigit() and number.isdigit() and unit:
            sharers = _cpus(_read(folder / "shared_cpu_list").strip())
            found.append(
                {"level": int(level), "bytes": int(number) * unit, "shared_by": max(1, sharers)}
            )
    return sorted(found, key=lambda cache: cache["level"])


def _cpus(text: str) -> int:
    """Return how many CPUs a list of the kernel's holds: 4 for ``0-2,8``."""
    ranges = [part.partition("-") for part in text.split(",") if part]
    return sum(int(last or first) - int(first) + 1 for first, _, last in ranges)


def wait_until_alone(limit_s: float = _ASLEEP_S) -> None:
    """Wait until no other thread of this process is at work, but no longer than `limit_s` seconds.

    Threads of a BLAS or of OpenMP that wait for their next piece of work stay awake for some 0.1 s,
    each on a CPU that what is timed next may need.
    """
    until = time.perf_counter() + limit_s
    while _busy_other_threads() and time.perf_counter() < until:
        time.sleep(_POLL_S)


def _busy_other_threads() -> bool:
    """Tell whether Linux says of another thread of this process that it runs (proc(5), stat)."""
    own = str(threading.get_native_id())
    stats = (_read(task / "stat") for task in Path("/proc/self/task").iterdir() if task.name != own)
    # The name, in brackets, may hold anything; the state follows it.
    return any(stat.rpartition(")")[2].split()[:1] == ["R"] for stat in stats)


def _groups(root: Path) -> Iterator[Path]:
    """Yield the folders of the process's control groups that can limit CPU time, and those above.

    Within a container a path may be that of the host, of which only the top is mounted: folders
    that do not exist limit nothing.
    """
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers or "cpu" in controllers.split(","):
            mount = root / "sys/fs/cgroup" / ("cpu" if controllers else "")
            relative = Path(path.strip("/"))
            yield from (mount / above for above in (relative, *relative.parents))


def _limit(group: Path) -> float | None:
    """Return the CPUs that one group's files grant; None if there is no limit."""
    quota, _, period = _read(group / "cpu.max").strip().partition(" ")  # version 2
    if not quota:
        quota = _read(group / "cpu.cfs_quota_us").strip()  # version 1
        period = _read(group / "cpu.cfs_period_us").strip()
    if not (quota.isdigit() and period.isdigit()):  # "max", -1, or none of these files
        return None
    return int(quota) / int(period)


def _read(path: Path) -> str:
    """Return the text of a file; empty if it cannot be read."""
    try:
        return path.read_text()
    except OSError:
        return ""
