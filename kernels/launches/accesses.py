"""The memory accesses of a user's kernel, counted on the host at two sizes."""

from collections.abc import Mapping
from dataclasses import replace
from math import lcm

from base.command_line import ABSENT, table
from kernels.catalog.product import Product, with_entry
from kernels.catalog.variant import UserKernel
from kernels.host_execution.binding import KernelFault, Run
from kernels.host_execution.check import sums
from kernels.launches.checks import Judged
from kernels.launches.reading import Operands
from kernels.products.shape import Shape
from kernels.theory.cost import OPERATIONS, Total

_COUNTED = 64  # smallest first size; the second size is twice the first
_LARGEST = 256
Totals = dict[str, Total]
Counted = dict[Product, Totals]


def counted(judged: Judged, entry: UserKernel) -> Counted:
    """Return the totals of square products of two sizes, the second twice the first.

    Two sizes suffice, because the accesses of a square product grow as a·N³ + b·N². The result is
    empty for a kernel with fixed sizes, or with a tile too large for a run in seconds. Raise
    KernelFault if a product is wrong at one of these sizes.
    """
    edge = lcm(judged.multiple, *judged.tile)
    size = edge * -(-_COUNTED // edge)
    if judged.is_fixed or 2 * size > _LARGEST:
        return {}
    library = judged.source.library("counted")
    totals = {}
    small = with_entry(entry, entry.dtypes[0], Shape.square(size))
    for product in (small, replace(small, shape=Shape.square(2 * size))):
        operands = Operands.random(product.shape, 1, judged.reading)
        result, runs = judged.reading.run(library, operands)
        verdict = operands.verdict(judged.reading.layout, result, judged.reading.factors)
        if not verdict.passed:
            raise KernelFault(f"{entry.name} at size {product.shape}: {verdict.reason}")
        totals[product] = sums(Run([count for run in runs for count in run.counts], []))
    return totals


def lines(product: Product, totals: Mapping[str, Total]) -> list[str]:
    """Return the lines of a table of the accesses in one product."""
    threads = product.launch.threads_per_block * product.launch.blocks
    per_request = "sectors or wavefronts per request"
    rows = [["accesses", "per thread", per_request, "bank conflicts per request"]]
    for operation in OPERATIONS:
        total = totals[operation]
        if not total.accesses:
            continue
        conflicts = f"{(total.transactions - total.ideal) / total.requests:.3g}"
        per_thread, each = total.accesses / threads, total.transactions / total.requests
        texts = [f"{operation.replace('_', ' ')}s", f"{per_thread:g}", f"{each:.3g}"]
        rows.append([*texts, conflicts if operation.startswith("shared") else ABSENT])
    return table(rows) if len(rows) > 1 else []
