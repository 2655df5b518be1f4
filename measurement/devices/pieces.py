"""Settings of runs in pieces: each setting is timed, and the fastest one is used.

A setting is also timed without the product. The time of its copies, in the order of the run, is a
floor for any kernel.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Generic, TypeVar

from kernels.catalog.product import Product
from kernels.catalog.variant import STAGED

ROUNDS = 6
# Rounds end early after this time, but every setting is timed once.
_LONGEST_S = 4.0
_MIB = 2**20
CHUNKS = (2 * _MIB, 4 * _MIB, 8 * _MIB)
_THREADS = (6, 12, 18, 24)
_FEWEST = 3
How = TypeVar("How")  # the type of a setting


@dataclass(frozen=True)
class Setting:
    """How a run is divided: pieces per GPU; for staged copies, also host threads and chunk size."""

    pieces: int
    staging_threads: int | None = None
    chunk_bytes: int | None = None

    @property
    def emptying_threads(self) -> int:
        """The number of threads that copy from pinned memory."""
        return (self.staging_threads or _FEWEST) // 3

    @property
    def filling_threads(self) -> int:
        """The number of threads that copy to pinned memory."""
        return (self.staging_threads or _FEWEST) - self.emptying_threads


@dataclass(frozen=True)
class Trial(Generic[How]):
    """The times of one run with a setting, and of its copies without the product, in seconds."""

    setting: How
    round: int
    copies_s: float
    run_s: float


def settings_of(product: Product, cores: int) -> list[Setting]:
    """Return the settings to try, the default first; each filling thread needs its own core."""
    counts = product.piece_counts
    if product.entry.flow != STAGED:
        return [Setting(count) for count in counts]
    staged = [
        Setting(count, threads, chunk)
        for count in counts
        for threads in (_FEWEST, *_THREADS)
        for chunk in CHUNKS
    ]
    fitting = [each for each in staged if each.filling_threads <= cores]
    return [each for each in fitting if each.staging_threads != _FEWEST] or staged[: len(CHUNKS)]


def fastest(trials: Iterable[Trial[How]]) -> How:
    """Return the setting whose runs have the least median time."""
    times = defaultdict(list)
    for trial in trials:
        times[trial.setting].append(trial.run_s)
    return min(times, key=lambda setting: median(times[setting]))


def try_out(
    runs: Mapping[How, tuple[Callable[[], object], Callable[[], object]]],
) -> list[Trial[How]]:
    """Time the copies and the runs of each setting in `ROUNDS` rounds after a warm-up round."""
    trials = []
    begin = time.perf_counter()
    for number in range(ROUNDS + 1):
        if number > 1 and time.perf_counter() - begin > _LONGEST_S:
            break
        for setting, (copy, run) in runs.items():
            times = [_seconds(copy), _seconds(run)]
            if number:
                trials.append(Trial(setting, number, *times))
    return trials


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter_ns()
    work()
    return (time.perf_counter_ns() - begin) / 1e9
