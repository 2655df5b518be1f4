"""The words of the study: what a device, a series and a verdict is called, in every table."""

import math

# Devices and hosts.
CPU = "cpu"
PUBLISHED = "published"  # stands for a recording where times are the source's
TREE = "tree"  # stands for a recording where cubins were built from this tree

# Outcomes of a cell's check, and the columns of a product's shape.
STATUSES = ("passed", "failed", "not_launchable")
SHAPE = ("batch", "m", "n", "k")

# The two series of a study: square float32 matrices of its sizes, and all else.
SIZES, SHAPES = "sizes", "shapes"

# How a kernel was timed: alone, the stream held until it was queued, or between events of a run.
KERNEL_ONLY, IN_RUN = "kernel-only", "in-run"

# The matrix size at which source V compares its variants (its Figures 1 and 2).
SOURCE_SIZE = 2048

# What a published program of its time used comes first; the tables are built the same way.
HOST_MEMORY_ORDER = ("pageable", "pinned")

# Verdicts on a speedup: its interval lies above 1, does not reach above 1, holds 1.
FASTER, SLOWER, UNDECIDED = "faster", "slower", "undecided"
NO_INTERVAL = "no interval"
ONE_SESSION = "one session"  # which tells nothing of another host or day
NOT_MEASURED = "not measured"


def verdict(speedup: float, low: float, high: float) -> str:
    """Return what a speedup with this 95 % interval says; NaN stands for what was not measured.

    `FASTER` if the interval lies above 1, `SLOWER` if its upper bound is 1 or below, else `UNDECIDED`.
    """
    if math.isnan(speedup):
        return NOT_MEASURED
    if math.isnan(low) or math.isnan(high):
        return NO_INTERVAL
    if low > 1:
        return FASTER
    return SLOWER if high <= 1 else UNDECIDED
