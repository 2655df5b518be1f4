"""Energy: joules a product, from the GPU's own counter over a second of launches.

The counter moves in steps of some tens of milliseconds, so that it is read from one step to
another.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

RAMP_S = 0.3  # of launches before the counter is read: clocks and power settle
SETTLE_S = 1.0  # without any, before idle power is read
POLL_S = 0.002


@dataclass(frozen=True)
class Energy:
    """Launches back to back for `duration_s`: how many, and what one takes in time and energy.

    `power_w` is the GPU's mean power meanwhile.
    """

    launches: int
    duration_s: float
    launch_s: float
    power_w: float
    energy_j: float


def steps(readings: Sequence[tuple[float, float]]) -> tuple[float, float] | None:
    """Return seconds and joules from the first step of a counter to its last.

    `readings` are (time in seconds, joules). None where fewer than two steps are seen.
    """
    seen = [reading for before, reading in pairwise(readings) if reading[1] != before[1]]
    if len(seen) < 2:
        return None
    (begin_s, begin_j), (end_s, end_j) = seen[0], seen[-1]
    return end_s - begin_s, end_j - begin_j
