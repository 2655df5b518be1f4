"""Building blocks for the memory accesses of a kernel, as formulas for `kernels.theory.cost`."""

from dataclasses import dataclass
from math import prod

from kernels.products.shape import Shape
from kernels.theory.cost import Access, Axis, GlobalAccess, OfThread, SharedAccess, alike

# A walk along rows, columns or k: the edge of a tile, and the thread's position in it.
Walk = tuple[int, OfThread]

ONE_BY_ONE: Walk = (1, alike)
VECTOR = 4  # elements of a float4


@dataclass(frozen=True)
class KernelAccesses:
    """Accesses of a kernel to A(row, k), B(k, column) and C(row, column), and to shared memory."""

    shape: Shape
    element_bytes: int

    def load_a(self, row: Walk, k: Walk, column: Walk) -> Access:
        """Load elements of A, once per tile of columns."""
        return self._global("global_load", (self.shape.k, 1, 0), row, k, column)

    def load_b(self, row: Walk, k: Walk, column: Walk) -> Access:
        """Load elements of B, once per tile of rows."""
        return self._global("global_load", (0, self.shape.n, 1), row, k, column)

    def load_b_transposed(self, row: Walk, k: Walk, column: Walk) -> Access:
        """Load elements of a transposed B, once per tile of rows."""
        return self._global("global_load", (0, 1, self.shape.k), row, k, column)

    def store_c(self, row: Walk, column: Walk) -> Access:
        """Store elements of C, once."""
        once = (self.shape.k, alike)
        return self._global("global_store", (self.shape.n, 0, 1), row, once, column)

    def load_shared(self, element: OfThread, times: int, vector: int = 1, run: int = 1) -> Access:
        """Load from shared memory, `times` per block; see `SharedAccess`."""
        return SharedAccess("shared_load", element, self.element_bytes, times, vector, run)

    def store_shared(self, element: OfThread, times: int, vector: int = 1) -> Access:
        """Store to shared memory, `times` per block; see `SharedAccess`."""
        return SharedAccess("shared_store", element, self.element_bytes, times, vector)

    def tiles(self, steps: int) -> int:
        """Return the number of iterations with K = `steps` each."""
        return -(-self.shape.k // steps)

    def _global(
        self, operation: str, weights: tuple[int, int, int], row: Walk, k: Walk, column: Walk
    ) -> Access:
        """Access a matrix with these weights of row, k and column; a batch has no gaps."""
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
    """Return a position that is `distance` further than `place`."""
    return lambda x, y: distance + place(x, y)
