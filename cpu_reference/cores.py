"""How many CPUs this process may really use, and the clock that they run at."""

import os
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

_ROOT = Path("/")


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


def clock_hz(root: Path = _ROOT) -> float | None:
    """Return the mean clock of the usable CPUs as the kernel tells it now; None if it does not.

    To be read before and after a measurement. On a virtual machine it often tells a nominal clock
    that never changes.
    """
    cpus = os.sched_getaffinity(0)
    files = [root / f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq" for cpu in cpus]
    khz = [float(text) for file in files if (text := _read(file).strip())]
    if khz:
        return mean(khz) * 1e3
    lines = [line.partition(":") for line in _read(root / "proc/cpuinfo").splitlines()]
    mhz = [float(value) for name, _, value in lines if name.strip() == "cpu MHz"]
    return mean(mhz) * 1e6 if mhz else None


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
