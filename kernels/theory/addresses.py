"""Helpers that describe the memory accesses of a kernel as formulas for `kernels.theory.cost`."""

from dataclasses import dataclass
from math import prod

from kernels.products.shape import Shape
from kernels.theory.cost import Access, Axis, GlobalAccess, OfThread, SharedAccess, alike

# A walk along rows, columns or k: the edge of a tile, and a thread's position in the tile.
Walk = tuple[int, OfThread]

ONE_BY_ONE: Walk = (1, alike)
VECTOR = 4  # elements of a float4


@dataclass(frozen=True)
class KernelAccesses:
    """Describes a kernel's accesses to A(row, k), B(k, column), C(row, column), shared memory."""

    shape: Shape
    element_bytes: int

    def load_a(self, row: Walk, k: Walk, column: Walk) -> Access:
        """Return a load of elements of A, which is repeated for each tile of columns."""
        return self._global("global_load", (self.shape.k, 1, 0), row, k, column)

    def load_b(self, row: Walk, k: Walk, column: Walk) -> Access:
        """Return a load of elements of B, which is repeated for each tile of rows."""
        return self._global("global_load", (0, self.shape.n, 1), row, k, column)

    def load_b_transposed(self, row: Walk, k: Walk, column: Walk) -> Access:
        """Return a load of elements of a transposed B, which is repeated for each tile of rows."""
        return self._global("global_load", (0, 1, self.shape.k), row, k, column)

    def store_c(self, row: Walk, column: Walk) -> Access:
        """Return a store of elements of C, which is executed once."""
        once = (self.shape.k, alike)
        return self._global("global_store", (self.shape.n, 0, 1), row, once, column)

    def load_shared(self, element: OfThread, times: int, vector: int = 1, run: int = 1) -> Access:
        """Return a load from shared memory, executed `times` per block; see `SharedAccess`."""
        return SharedAccess("shared_load", element, self.element_bytes, times, vector, run)

    def store_shared(self, element: OfThread, times: int, vector: int = 1) -> Access:
        """Return a store to shared memory, executed `times` per block; see `SharedAccess`."""
        return SharedAccess("shared_store", element, self.element_bytes, times, vector)

    def tiles(self, steps: int) -> int:
        """Return the number of iterations over k if each covers `steps` values of k."""
        return -(-self.shape.k // steps)

    def _global(
        self, operation: str, weights: tuple[int, int, int], row: Walk, k: Walk, column: Walk
    ) -> Access:
        """Return an access with these strides of row, k and column; a batch has no gaps."""
        axes = [
            Axis(extent, *walk, weight)
            for extent, walk, weight in zip(
                (self.shape.m, self.shape.k, self.shape.n), (row, k, column), weights, strict=True
            )
        ]
        elements = prod(axis.extent for axis in axes if axis.weight)
        batch = Axis(self.shape.batch, *ONE_BY_ONE, elements)
        return GlobalAccess(operation, (batch, *axes), self.element_bytes)


def in_rows(pitch: int, row: OfThread, column: OfThread) -> OfThread:
    """Return the position of an element in an array with rows of `pitch` elements."""
    return lambda x, y: pitch * row(x, y) + column(x, y)


def shifted(distance: int, place: OfThread) -> OfThread:
    """Return the position that is `distance` elements after `place`."""
    return lambda x, y: distance + place(x, y)
