"""The second check: it finds user-supplied code that cheats when it is timed.

A kernel that stored results, or skips work after the gate, would return a product of other inputs.
Therefore A and B of a timed run begin at a secret place in their random vectors, and C is poisoned.
After the run, the recorder's process draws a random vector and random rows, which the process that
runs user-supplied code cannot know. C times the vector shows the row with the largest error; this
row and the random rows are compared with a reference. A sample that is wrong, or faster than the
GPU can compute or copy, is refused.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from threadpoolctl import threadpool_limits

from kernels.catalog.locations import LOCATIONS
from kernels.catalog.variant import SEQUENTIAL, Library, UserCall, UserSupplied
from kernels.products.elements import ELEMENTS, FLOAT, exact
from kernels.products.gate import Verdict, evaluate
from kernels.products.matrices import Inputs, Matrix, Problem, reference
from measurement.devices.errors import CellError
from study.cells import CPU, Cell

# Matrices begin at a multiple of a page, so copies and vector loads stay aligned. Launches that are
# timed together begin `_STEP_BYTES` later each, in the device's buffers.
_PAGES, _PAGE_BYTES = 240, 4096
_STEP_BYTES, MOST_LAUNCHES = 256, 100
SPARE_BYTES = (_PAGES + -(-_STEP_BYTES * MOST_LAUNCHES // _PAGE_BYTES)) * _PAGE_BYTES
# Rows of C to check, and columns of them; columns of the most wrong row.
_ROWS, _COLUMNS, _SUSPECTS = 12, 64, 4
# Root mean square error of float32 sums over that of the elements, at most. In the order of k it is
# 2⁻²⁰ at k = 4096 and grows with √k; with one factor of TF32 it is 2⁻¹³ at every k. Kernels that
# round more often may exceed it, but those that round less often have no lower limit.
_IMPRECISE = 2.0**-15
# The largest errors of a product exceed the root mean square of all at most by this factor: of 2²⁴
# normal errors one is beyond 5.4 standard deviations, and a row is chosen by only one sum.
_LARGEST = 5.0
# Share of the samples of user-supplied code that are checked, besides the last; share of the
# catalog's kernels whose last sample is.
_CHECKED_SHARE = 0.25
_SLACK, _PARTS = 0.1, 3  # of ceilings; products on tensor cores for one of float32, at least
# An in-run kernel time of user-supplied code exceeds its kernel-only time by at most this share and
# duration. A launch from Python may add `_CALL_S` and twice its time to enqueue, of which at most
# `_LONGEST_QUEUED_S` counts.
_LONGER, _LAUNCH_S, _CALL_S, _LONGEST_QUEUED_S = 0.5, 50e-6, 500e-6, 1e-3
REFUSED = "refused: "  # start of the reason for a refused time


@dataclass(frozen=True)
class Change:
    """Where the inputs of a run begin: the bytes before A and before B in their vectors.

    `drawn`: they are random, so C is poisoned before the run. `checked`: the product is checked.
    """

    begins: tuple[int, int] = (0, 0)
    drawn: bool = False
    checked: bool = False


SAME = Change()  # no change of the inputs


def step_bytes(cell: Cell) -> int:
    """Return by how many bytes A and B begin later in each further launch of a sample.

    A and B that a host step pads or transposes always begin at the start.
    """
    return 0 if cell.product.entry.host_step else _STEP_BYTES


def project(c: Matrix, vector: Matrix) -> Matrix:
    """Return the product of C, (batch, m, n), with a vector: (batch, m)."""
    with np.errstate(invalid="ignore", over="ignore"):  # C may be wrong, with infinite elements
        product: Matrix = c @ vector
    return product


class SecondCheck:
    """Draws changes of inputs for one device and checks products; `seconds` is the time it took."""

    def __init__(self, problems: tuple[Problem, ...], seed: int) -> None:
        """Use the random vectors of `Inputs` with this seed, and unpredictable changes."""
        self._problems, self._seed = problems, seed
        self._rng = np.random.default_rng()
        self.seconds = 0.0

    @cached_property
    def inputs(self) -> Inputs:
        """The random vectors, generated on first use."""
        return Inputs(self._problems, self._seed, SPARE_BYTES)

    def draw(self, cell: Cell, last: bool) -> Change:
        """Return the change of inputs for a sample; `last` says whether it is the cell's last one.

        For user-supplied code, all samples have changed inputs, and a random share and the last one
        are checked. For the catalog's code, which is known, only the last sample is, in a random
        share of the cells: to check all of these cells took a seventh of a recording's time. Runs
        as graphs and in pieces read fixed host memory, so their inputs stay at the same place.
        """
        entry = None if cell.device == CPU else cell.product.entry
        chosen = self._rng.random() < _CHECKED_SHARE
        if not isinstance(entry, UserSupplied) and not (last and chosen):
            return SAME
        change = Change(drawn=True, checked=last or chosen)
        if entry and entry.flow not in SEQUENTIAL:
            return change
        first, second = self._rng.integers(0, _PAGES, 2)
        return replace(change, begins=(int(first) * _PAGE_BYTES, int(second) * _PAGE_BYTES))

    def check(
        self,
        cell: Cell,
        change: Change,
        projection: Callable[[Matrix], Matrix],
        rows_of: Callable[[list[int]], Matrix],
        launches: int = 0,
    ) -> None:
        """Check C, by its `project` and by rows numbered through the batch; raise CellError.

        `projection` and `rows_of` get these from the process that has C. `launches` is the number
        of kernel-only launches by which the inputs were shifted.
        """
        begin = time.perf_counter()
        later = step_bytes(cell) * launches if launches else 0
        a, b = self.inputs.rounded(cell.dtype, cell.shape, [at + later for at in change.begins])
        digits = FLOAT.digits if cell.device == CPU else cell.product.entry.digits
        multiple = cell.bound_multiple
        # Threads of a BLAS would stay awake after a check, and disturb the next sample.
        with threadpool_limits(limits=1, user_api="blas"):
            integers = self._rng.integers(-(2**23), 2**23, cell.shape.n)  # for every type
            vector = integers.astype(a.dtype)
            expected = a @ (b @ vector)[:, :, None]
            suspect = int(_largest(projection(vector).reshape(-1), expected.reshape(-1))[0])
            random = self._rng.permutation(cell.shape.batch * cell.shape.m)[:_ROWS]
            rows = [suspect, *random.tolist()]
            verdicts = []
            for position, (row, values) in enumerate(zip(rows, rows_of(rows), strict=True)):
                number, index = divmod(row, cell.shape.m)
                left, right = a[number][[index]], b[number]
                columns = self._rng.permutation(cell.shape.n)[:_COLUMNS]
                if is_suspect := position == 0:
                    columns = _largest(values, left[0] @ right)[:_SUSPECTS]
                some, right = values[None, columns], right[:, columns]
                verdicts.append(compare(some, left, right, multiple, digits, is_suspect))
        self.seconds += time.perf_counter() - begin
        reasons = [verdict.reason for verdict in verdicts if not verdict.passed]
        if reasons:
            raise CellError(f"{REFUSED}a timed product is wrong: {reasons[0]}")


def _largest(values: Matrix, expected: Matrix) -> Matrix:
    """Return the indices sorted by descending error; values that are not finite come first."""
    with np.errstate(invalid="ignore", over="ignore"):
        distance = np.abs((values - expected).astype(np.float64))
    return np.argsort(-np.nan_to_num(distance, nan=np.inf), kind="stable")


def compare(
    values: Matrix,
    left: Matrix,
    right: Matrix,
    multiple: float,
    digits: int = FLOAT.digits,
    largest: bool = False,
) -> Verdict:
    """Compare elements with those of left·right: each must be within its error bound.

    Together they must also have the precision of float32. `digits` are those to which the device
    may round the factors (`Variant.digits`). `largest`: elements chosen for large errors.
    """
    expected, bound = reference(left[None], right[None])
    verdict = evaluate(values[None], expected, bound, multiple)
    if not verdict.passed or values.dtype != np.float32:
        return verdict
    error = np.sqrt(np.square(values - expected).mean())
    squares = (np.square(factor, dtype=np.float64).mean() for factor in (left, right))
    share = error / np.sqrt(left.shape[-1] * np.prod(list(squares)))
    limit = max(multiple, 1.0) * _IMPRECISE + 2 * 2.0**-digits
    limit *= _LARGEST if largest else 1
    if share <= limit:
        return verdict
    reason = f"errors are {share:.2g} of the elements; float32 allows {limit:.2g}"
    return replace(verdict, passed=False, reason=reason)


def check_floor(
    cell: Cell, seconds: float, ceilings: Mapping[str, float], end_to_end: bool = False
) -> None:
    """Raise CellError if a time is below the floor that the measured `ceilings` of the GPU give."""
    shape, entry, gpus = cell.shape, cell.product.entry, cell.product.entry.gpus
    size, of_c = (ELEMENTS[name].bytes for name in (cell.dtype, exact(cell.dtype)))
    elements = {"a": shape.a_elements, "b": shape.b_elements}
    read, written = sum(elements.values()) * size, shape.c_elements * of_c
    location = LOCATIONS[cell.host_memory or "pinned"]
    sent = sum(elements[name] for name in location.copied_in) * size
    returned = written * location.copies_out
    parts = entry.tensor_products if isinstance(entry, Library) else 0
    tensor = ceilings.get("fp16_tensor_flop_per_s", 0.0) / (parts or _PARTS)
    limits = [
        (shape.flop, max(ceilings.get("fp32_flop_per_s", 0.0), tensor), "flop"),
        (read + written, ceilings.get("l2_bytes_per_s", 0.0), "bytes"),
        (sent * end_to_end, ceilings.get("h2d_bytes_per_s", 0.0), "bytes to the GPU"),
        (returned * end_to_end, ceilings.get("d2h_bytes_per_s", 0.0), "bytes from the GPU"),
    ]
    floors = [
        (amount / (rate * gpus), f"{amount:.3g} {unit} at {rate * gpus:.3g} per second")
        for amount, rate, unit in limits
        if rate
    ]
    floors.append((ceilings.get("l2_latency_s", 0.0), "one access to the L2"))
    least_s, reason = max(floors)
    if seconds < (1 - _SLACK) * least_s:
        times = f"{seconds * 1e6:.4g} µs is below the physical floor of {least_s * 1e6:.4g} µs"
        raise CellError(f"{REFUSED}{times}: {reason}")


def check_in_run(cell: Cell, kernel_s: float, queued_s: float, in_run_s: float) -> None:
    """Raise CellError if user-supplied code took much less time kernel-only than in its runs.

    Some of its work was then done before the timer started. In runs, of which the shortest took
    `in_run_s`, that is impossible, because the inputs have just arrived.
    """
    entry, launch_s = cell.product.entry, _LAUNCH_S
    if isinstance(entry, UserCall):
        launch_s = _CALL_S + 2 * min(queued_s, _LONGEST_QUEUED_S)
    if isinstance(entry, UserSupplied) and in_run_s > (1 + _LONGER) * kernel_s + launch_s:
        raise CellError(
            f"{REFUSED}{kernel_s * 1e6:.4g} µs kernel-only, but at least {in_run_s * 1e6:.4g} µs "
            "in end-to-end runs: work was done before the timer started"
        )
