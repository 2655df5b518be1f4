"""The second check: the product of a timed sample, in the recorder's process.

The recorder draws the changes of the inputs and, after the run, the rows to check. Nothing in the
worker, where user-supplied code runs, has the expected product. A sample that is wrong, or faster
than the GPU can compute or copy, is refused.
"""

import time
from collections.abc import Callable, Mapping
from functools import cached_property

import numpy as np
from threadpoolctl import ThreadpoolController

from kernels.catalog.variant import SEQUENTIAL, UserCall, UserSupplied
from kernels.products.change import (
    SAME,
    SPARE_BYTES,
    TERMS,
    Change,
    check,
    checks_all,
    digest,
    draw,
    random_vector,
    rows_to_check,
    suspicious,
)
from kernels.products.elements import ELEMENTS
from kernels.products.matrices import Inputs, Matrix, Problem
from measurement.devices.errors import CellError
from measurement.devices.session import Rows, step_bytes
from study.cells import CPU, Cell

# Gets the change, the rows, and by how many bytes A, B and C begin later.
Evidence = Callable[[Change, Rows, int], tuple[Matrix, str]]
# Gets a vector and returns `project` of the product with it.
Projection = Callable[[Matrix], Matrix]
_B_ROWS = 8
# Share of the samples of user-supplied code that are checked, besides the last.
_CHECKED_SHARE = 0.25
# Measured ceilings vary by this share.
_SLACK = 0.1
# Each float32 product takes at least three products of 16-bit parts on tensor cores.
_PARTS = 3


# An in-run kernel time of user-supplied code exceeds its kernel-only time by at most this share and
# duration: launches of a library from Python take longest.
_LONGER, _LAUNCH_S, _CALL_S = 0.5, 50e-6, 500e-6

# Start of the reason for a refused time.
REFUSED = "refused: "


class SecondCheck:
    """Draws changes and checks products for one device; `seconds` sums the time of the checks."""

    def __init__(self, problems: tuple[Problem, ...], seed: int) -> None:
        """Use the random vectors of `Inputs` with this seed, and changes that nobody can know."""
        self._problems, self._seed = problems, seed
        self._rng = np.random.default_rng()
        self.seconds = 0.0

    @cached_property
    def inputs(self) -> Inputs:
        """The random vectors, made on first use."""
        return Inputs(self._problems, self._seed, SPARE_BYTES)

    def draw(self, cell: Cell, last: bool) -> Change:
        """Return the change of a sample. The `last` sample is checked.

        Of user-supplied code, all samples have changed inputs, and a random share is checked. Of
        the catalog, only the last sample differs, so times stay comparable with older recordings.
        Runs as graphs and in pieces read fixed host memory, so their inputs stay at the same place.
        """
        entry = None if cell.device == CPU else cell.product.entry
        is_user_supplied = isinstance(entry, UserSupplied)
        if not last and not is_user_supplied:
            return SAME
        checked = last or self._rng.random() < _CHECKED_SHARE
        moves = entry is None or entry.flow in SEQUENTIAL
        return draw(self._rng, cell.dtype, cell.shape, moves, checked)

    @cached_property
    def _blas(self) -> ThreadpoolController:
        """Threads of a BLAS would stay awake after a check, and disturb the next sample."""
        return ThreadpoolController()

    def check(
        self,
        cell: Cell,
        change: Change,
        evidence: Evidence,
        launches: int = 0,
        projection: Projection | None = None,
    ) -> None:
        """Check a sample; a kernel-only sample has a number of `launches`. Raise CellError.

        With a `projection`, the row of a large product with the most wrong projection is checked
        too.
        """
        begin = time.perf_counter()
        later = step_bytes(cell) * launches if launches else 0
        shape = cell.shape
        pair = self.inputs.pair(cell.dtype, shape, [each + later for each in change.begins])
        rows = rows_to_check(self._rng, shape, change)
        suspect = None
        with self._blas.limit(limits=1, user_api="blas"):
            if projection and not checks_all(shape, rows):
                vector = random_vector(self._rng, cell.dtype, shape.n)
                suspect = suspicious(*pair, vector, projection(vector), change)
                rows = tuple(dict.fromkeys([*rows, suspect]))
            b_rows = tuple(map(int, self._rng.integers(0, shape.batch * shape.k, _B_ROWS)))
            product, inputs = evidence(change, (rows, b_rows), later)
            verdict = check(
                *(self._rng, self.inputs, cell.dtype, shape, change, rows, product),
                (cell.bound_multiple, _thin_multiple(cell)),
                *(later, suspect),
            )
        own = (tuple(row for row in rows if row not in change.thin), b_rows)
        self.seconds += time.perf_counter() - begin
        if verdict:
            raise CellError(f"{REFUSED}a timed product is wrong: {verdict.reason}")
        if digest(*pair, *own) != inputs:
            raise CellError(f"{REFUSED}the inputs were changed; a kernel may only read A and B")


def _thin_multiple(cell: Cell) -> float:
    return 1.0 if cell.device == CPU else cell.product.entry.roundoffs(TERMS) / TERMS


def floor(cell: Cell, ceilings: Mapping[str, float], end_to_end: bool) -> tuple[float, str]:
    """Return the shortest possible time of a cell on a GPU in seconds, and its reason.

    `ceilings` are the GPU's largest measured values by quantity. Missing ones give no limit.
    """
    shape, size = cell.shape, ELEMENTS[cell.dtype].bytes
    moved = (shape.a_elements + shape.b_elements + shape.c_elements) * size
    tensor = ceilings.get("fp16_tensor_flop_per_s", 0.0) / _PARTS
    gpus = cell.product.entry.gpus
    peak = max(ceilings.get("fp32_flop_per_s", 0.0), tensor) * gpus
    bandwidth = ceilings.get("l2_bytes_per_s", 0.0) * gpus
    limits = [
        (shape.flop, peak, f"{shape.flop / 1e9:.3g} Gflop at {peak / 1e12:.3g} Tflop/s"),
        (moved, bandwidth, f"{moved / 1e6:.3g} MB at {bandwidth / 1e12:.3g} TB/s"),
    ]
    if end_to_end:
        for name, count in (
            ("h2d", shape.a_elements + shape.b_elements),
            ("d2h", shape.c_elements),
        ):
            link = ceilings.get(f"{name}_bytes_per_s", 0.0) * gpus
            text = f"{count * size / 1e6:.3g} MB at {link / 1e9:.3g} GB/s between host and GPU"
            limits.append((count * size, link, text))
    found = [(amount / rate, text) for amount, rate, text in limits if rate]
    found.append((ceilings.get("l2_latency_s", 0.0), "one access to the L2"))
    return max(found)


def check_floor(
    cell: Cell, seconds: float, ceilings: Mapping[str, float], end_to_end: bool = False
) -> None:
    """Raise CellError if a time is below the physical floor of the cell."""
    least_s, reason = floor(cell, ceilings, end_to_end)
    if seconds < (1 - _SLACK) * least_s:
        raise CellError(
            f"{REFUSED}{seconds * 1e6:.4g} µs is below the physical floor of {least_s * 1e6:.4g} "
            f"µs: {reason}"
        )


def check_in_run(cell: Cell, seconds: float, in_run_s: float) -> None:
    """Raise CellError if a kernel-only time of user-supplied code omits work of its runs.

    Such code computed before the timer started: in the launch before, or beside the blocked stream.
    In an end-to-end run this is impossible, because the inputs have just arrived. `in_run_s` is the
    least in-run time.
    """
    entry = cell.product.entry
    launch_s = _CALL_S if isinstance(entry, UserCall) else _LAUNCH_S
    if isinstance(entry, UserSupplied) and in_run_s > (1 + _LONGER) * seconds + launch_s:
        raise CellError(
            f"{REFUSED}{seconds * 1e6:.4g} µs kernel-only, but at least {in_run_s * 1e6:.4g} µs "
            "in end-to-end runs: work was done before the timer started"
        )
