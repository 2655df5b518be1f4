"""Host buffers of A, B and C in each kind of host memory, and the host steps between them."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kernels.catalog.host_steps import Fill
from kernels.products.elements import ELEMENTS, exact
from kernels.products.matrices import Inputs, Matrix, matrices, pair_of
from measurement.devices.second_check import SAME, Change
from study.cells import Cell

Bytes = npt.NDArray[np.uint8]
# A function that allocates so many bytes of host memory.
Allocate = Callable[[int], Bytes]
# A host step: (function, source, target).
HostStepCall = tuple[Fill, Matrix, Matrix]


@dataclass(frozen=True)
class Work:
    """The arrays that one run copies (`a` and `b` to the device, `c` back), and its host steps.

    The host steps `before` run before the copies to the device, `after` after the copy of C.
    """

    a: Matrix
    b: Matrix
    c: Matrix
    before: tuple[HostStepCall, ...] = ()
    after: tuple[HostStepCall, ...] = ()

    def prepare(self) -> None:
        """Run the host steps that precede the copies to the device."""
        for fill, source, target in self.before:
            fill(source, target)

    def finish(self) -> None:
        """Run the host steps that follow the copy of C."""
        for fill, source, target in self.after:
            fill(source, target)


class HostBuffers:
    """The matrices in one kind of host memory; `a` and `b` map dtypes to flat arrays."""

    def __init__(
        self, a: Mapping[str, Matrix], b: Mapping[str, Matrix], c_bytes: int, allocate: Allocate
    ) -> None:
        self._a = a
        self._b = b
        self._c = allocate(c_bytes)
        self._allocate = allocate
        self._staged: dict[str, Bytes] = {}

    def product(self, cell: Cell) -> Matrix:
        """Return C, (batch, m, n)."""
        shape, element = cell.shape, ELEMENTS[exact(cell.dtype)]
        flat = self._c[: shape.c_elements * element.bytes].view(element.dtype)
        return matrices(flat, shape.batch, shape.m, shape.n)

    def work(self, cell: Cell, change: Change = SAME, more_bytes: int = 0) -> Work:
        """Return the copies and host steps of the cell's run.

        Without host steps, A and B are `more_bytes` longer, for launches with shifted inputs.
        """
        a, b = pair_of(self._a[cell.dtype], self._b[cell.dtype], cell.shape, change.begins)
        c = self.product(cell)
        step = cell.product.entry.host_step
        if step is None:
            more = more_bytes // a.itemsize
            first, second = (begin // a.itemsize for begin in change.begins)
            return Work(
                self._a[cell.dtype][first : first + a.size + more],
                self._b[cell.dtype][second : second + b.size + more],
                c.ravel(),
            )
        seen = cell.product.operands
        edges = {"a": (seen.m, seen.k), "b": (seen.k, seen.n), "c": (seen.m, seen.n)}
        copied = {"a": a, "b": b, "c": c}
        for name in copied:
            if getattr(step, name):
                copied[name] = self._stage(name, cell.dtype, (seen.batch, *edges[name]))
        before = [(step.a, a, copied["a"]), (step.b, b, copied["b"])]
        return Work(
            copied["a"].ravel(),
            copied["b"].ravel(),
            copied["c"].ravel(),
            tuple((fill, source, target) for fill, source, target in before if fill),
            ((step.c, copied["c"], c),) if step.c else (),
        )

    def _stage(self, name: str, dtype: str, shape: tuple[int, int, int]) -> Matrix:
        """Return the buffer of A, B or C that a run copies, which a host step fills or reads."""
        size = int(np.prod(shape)) * ELEMENTS[dtype].bytes
        if name not in self._staged or self._staged[name].nbytes < size:
            self._staged[name] = self._allocate(size)
        return self._staged[name][:size].view(ELEMENTS[dtype].dtype).reshape(shape)


def copied(inputs: Inputs, allocate: Allocate) -> HostBuffers:
    """Return host buffers with copies of the inputs, in memory that `allocate` returns."""

    def copy(vectors: Mapping[str, Matrix]) -> dict[str, Matrix]:
        copies = {
            dtype: allocate(vector.nbytes).view(vector.dtype) for dtype, vector in vectors.items()
        }
        with ThreadPoolExecutor() as pool:  # numpy releases the interpreter lock
            list(pool.map(np.copyto, copies.values(), vectors.values()))
        return copies

    return HostBuffers(copy(inputs.a), copy(inputs.b), inputs.c_bytes, allocate)


def pageable(inputs: Inputs) -> HostBuffers:
    """Return host buffers that are the inputs themselves, which are in pageable memory."""
    return HostBuffers(inputs.a, inputs.b, inputs.c_bytes, lambda size: np.empty(size, np.uint8))
