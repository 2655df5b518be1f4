"""Names of devices, series and verdicts in all tables."""

import math
from collections.abc import Iterable

CPU = "cpu"
PUBLISHED = "published"  # the source of times that source V published
TREE = "tree"  # the source of cubins that were built from this source tree

# Outcomes of the correctness check; columns of the shape of a product.
STATUSES = ("passed", "failed", "not_launchable")
SHAPE = ("batch", "m", "n", "k")

# The two series of a study: square float32 matrices of its sizes, and all other products.
SIZES, SHAPES = "sizes", "shapes"

# The matrix size in Figures 1 and 2 of source V.
SOURCE_SIZE = 2048

# Pageable memory, as in the published programs (malloc), comes first; for kernel times, pinned
# memory, whose copies disturb the GPU least.
HOST_MEMORY_ORDER, KERNEL_MEMORY_ORDER = ("pageable", "pinned"), ("pinned", "pageable")

# Verdicts on a speedup: its interval lies above 1, does not reach above 1, contains 1.
FASTER, SLOWER, UNDECIDED = "faster", "slower", "undecided"
NO_INTERVAL = "no interval"
ONE_SESSION = "one session"  # verdict of intervals that say nothing about other hosts or days
NOT_MEASURED = "not measured"


def preferred_memory(quantity: str, kinds: Iterable[str]) -> str | None:
    """Return which of these kinds of host memory to show, for "total" or "kernel" times."""
    order, kinds = KERNEL_MEMORY_ORDER if quantity == "kernel" else HOST_MEMORY_ORDER, {*kinds}
    return next((kind for kind in order if kind in kinds), None)


def verdict(speedup: float, low: float, high: float) -> str:
    """Return the verdict for a speedup with this 95 % interval; NaN means not measured.

    `FASTER`: the interval lies above 1; `SLOWER`: its upper bound is 1 or less; else `UNDECIDED`.
    """
    if math.isnan(speedup):
        return NOT_MEASURED
    if math.isnan(low) or math.isnan(high):
        return NO_INTERVAL
    if low > 1:
        return FASTER
    return SLOWER if high <= 1 else UNDECIDED


# Ceilings of the roofline, as columns bound and limited_by name them, and their names for readers.
CEILINGS = {
    "compute": "arithmetic",
    "l1": "L1 lines",
    "shared": "shared-memory wavefronts",
    "pipe": "lines and wavefronts",
    "l2": "L2",
    "issue": "instruction issue",
    "dram": "device memory",
}
