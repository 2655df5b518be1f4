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
ORDERS, SHAPES = "orders", "shapes"

# How a kernel was timed: alone, the stream held until it was queued, or between events of a pass.
HELD, IN_PASS = "held", "in pass"

# The matrix size at which source V compares its variants (its Figures 1 and 2).
SOURCE_ORDER = 2048

# What a published program of its time used comes first; the tables are built the same way.
HOST_MEMORY_ORDER = ("pageable", "pinned")

# Verdicts on a gain: its interval lies above 1, does not reach above 1, holds 1.
GAIN, LOSS, UNDECIDED = "gain", "loss", "undecided"
NO_INTERVAL = "no interval"
ONE_SITTING = "one sitting"  # which tells nothing of another host or day
NOT_MEASURED = "not measured"

# The same verdicts, as a step of a ladder has them.
PAYS, DOES_NOT_PAY = "pays", "does not pay"


def verdict(gain: float, low: float, high: float) -> str:
    """Return what a gain with this 95 % interval says; NaN stands for what was not measured.

    `GAIN` if the interval lies above 1, `LOSS` if its upper bound is 1 or below, else `UNDECIDED`.
    """
    if math.isnan(gain):
        return NOT_MEASURED
    if math.isnan(low) or math.isnan(high):
        return NO_INTERVAL
    if low > 1:
        return GAIN
    return LOSS if high <= 1 else UNDECIDED


def step_verdict(gain: float, low: float, high: float) -> str:
    """Return whether a step of a ladder pays, by the interval of its gain."""
    word = verdict(gain, low, high)
    return {GAIN: PAYS, LOSS: DOES_NOT_PAY}.get(word, word)
