"""Host memory of one kind for A, B and C, and what the host makes of them for a kernel."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kernels.catalog.entries import variant
from kernels.catalog.host_steps import Fill
from kernels.products.elements import ELEMENTS
from kernels.products.matrices import Inputs, Matrix, matrices
from study.cells import Cell

Bytes = npt.NDArray[np.uint8]
# What makes host memory: of so many bytes.
Allocate = Callable[[int], Bytes]
# What is filled, from what: (function, source, target).
Filling = tuple[Fill, Matrix, Matrix]


@dataclass(frozen=True)
class Work:
    """What one run copies, flat: `a` and `b` to the device, `c` back from it; and fills before."""

    a: Matrix
    b: Matrix
    c: Matrix
    before: tuple[Filling, ...] = ()
    after: tuple[Filling, ...] = ()

    def prepare(self) -> None:
        """Make what is copied to the device."""
        for fill, source, target in self.before:
            fill(source, target)

    def finish(self) -> None:
        """Make C of what was copied back."""
        for fill, source, target in self.after:
            fill(source, target)


class HostBuffers:
    """The matrices in one kind of host memory: `a` and `b` are vectors by type of elements."""

    def __init__(
        self,
        a: Mapping[str, Matrix],
        b: Mapping[str, Matrix],
        c_bytes: int,
        allocate: Allocate,
    ) -> None:
        self._a = a
        self._b = b
        self._c = allocate(c_bytes)
        self._allocate = allocate
        self._staged: dict[str, Bytes] = {}

    def product(self, cell: Cell) -> Matrix:
        """Return C, (batch, m, n)."""
        shape = cell.shape
        return matrices(
            self._c[: shape.c_elements * ELEMENTS[cell.dtype].bytes].view(
                ELEMENTS[cell.dtype].dtype
            ),
            shape.batch,
            shape.m,
            shape.n,
        )

    def work(self, cell: Cell) -> Work:
        """Return what a run of the cell has to copy and to fill."""
        shape = cell.shape
        a = matrices(self._a[cell.dtype], shape.batch, shape.m, shape.k)
        b = matrices(self._b[cell.dtype], shape.batch, shape.k, shape.n)
        c = self.product(cell)
        step = variant(cell.variant).host_step
        if step is None:
            return Work(a.ravel(), b.ravel(), c.ravel())
        seen = step.operands(shape, cell.block_size or 0)
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
        """Return memory for a matrix that the host fills; there is one for each of A, B and C."""
        size = int(np.prod(shape)) * ELEMENTS[dtype].bytes
        if name not in self._staged or self._staged[name].nbytes < size:
            self._staged[name] = self._allocate(size)
        return self._staged[name][:size].view(ELEMENTS[dtype].dtype).reshape(shape)


def pinned(inputs: Inputs, allocate: Allocate) -> HostBuffers:
    """Return copies of the inputs in page-locked memory, which `allocate` makes."""

    def copy(vectors: Mapping[str, Matrix]) -> dict[str, Matrix]:
        copies = {}
        for dtype, vector in vectors.items():
            copies[dtype] = allocate(vector.nbytes).view(vector.dtype)
            copies[dtype][:] = vector
        return copies

    return HostBuffers(copy(inputs.a), copy(inputs.b), inputs.c_bytes, allocate)


def pageable(inputs: Inputs) -> HostBuffers:
    """Return the matrices in ordinary memory: the inputs themselves."""
    return HostBuffers(inputs.a, inputs.b, inputs.c_bytes, lambda size: np.empty(size, np.uint8))
