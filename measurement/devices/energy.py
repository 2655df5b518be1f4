"""Energy: joules per product, from the GPU's energy counter during a second of launches.

The counter of an H200 is updated every 0.1 s, so intervals start and end at an update.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

RAMP_S = 0.3  # launches before the counter is read, until clocks and power are stable
SETTLE_S = 1.0  # pause before idle power is read
POLL_S = 0.002


@dataclass(frozen=True)
class Energy:
    """Launches back to back for `duration_s`: their number, and time and energy per launch.

    `power_w` is the GPU's mean power during these launches.
    """

    launches: int
    duration_s: float
    launch_s: float
    power_w: float
    energy_j: float


def steps(readings: Sequence[tuple[float, float]]) -> tuple[float, float] | None:
    """Return seconds and joules between the first and the last update of a counter.

    `readings` are (time in seconds, joules). None if there are fewer than two updates.
    """
    updates = [reading for before, reading in pairwise(readings) if reading[1] != before[1]]
    if len(updates) < 2:
        return None
    (begin_s, begin_j), (end_s, end_j) = updates[0], updates[-1]
    return end_s - begin_s, end_j - begin_j
