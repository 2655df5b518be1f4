"""Running kernels at sizes beyond their limits, and at the largest that 32-bit indices allow."""

from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm, log
from time import process_time

import numpy as np
import numpy.typing as npt

from base.errors import StudyError
from kernels.host_execution.binding import Array, KernelFault, LastBlock
from kernels.host_execution.check import MAX_GRID, MAX_SHARED_BYTES, zeros
from kernels.launches.library import Library, Source
from kernels.launches.reading import Reading
from kernels.products.shape import LARGEST_SIZE, Shape

LARGE_EDGE = 1025  # above usual limits of a kernel, such as 1,024 threads or elements
_TIMED = 4096  # the largest size that is timed without being asked for
_STEP = 128  # step of sizes, because a kernel may treat whole tiles differently
_SECONDS = 6.0  # longest expected time for the last block of a large product
_LARGE = (LARGEST_SIZE, 12289, 8193, 4097)  # above usual limits; the first fast enough is run
_TERMS = 128  # terms of a sum that are not zero, at random indices and at the end

Indices = npt.NDArray[np.int64]
_NONE: Indices = np.arange(0)


@dataclass(frozen=True)
class LastBlocks:
    """The last blocks of large square products, which are run alone and with checked addresses."""

    library: Library
    reading: Reading
    step: int  # sizes are multiples of this step

    @classmethod
    def of(cls, source: Source, reading: Reading, *edges: int) -> "LastBlocks":
        """Compile a launch for such runs; the sizes are multiples of these edges."""
        return cls(source.library("large"), reading, lcm(*edges, _STEP))

    def fault(self) -> tuple[list[Shape], str | None]:
        """Return the shapes whose last block is correct, and the fault of the next shape, if any.

        If a block computes only parts of sums, no shape counts. Too long runs are omitted.
        """
        edge, largest = max(3, -(-LARGE_EDGE // self.step)), LARGEST_SIZE // self.step
        if edge >= largest:
            return [], None
        edge, largest = edge * self.step, largest * self.step
        if fault := self._least_unlaunched(largest):
            return [], fault
        if self._unlaunched(largest, with_grid=True):  # if host code counts in 32 bits
            largest = edge
        right: list[Shape] = []
        shape = Shape.square(edge)
        several = Shape.square(2 * self.step)  # blocks
        try:
            begin = process_time()
            (_, _, c), run = self._run(several)
            if (fewer := len(run.bytes)) == c.size:  # alone, the block does the work of all
                return [], None
            whole = sum(
                len(np.unique(each)) == several.n
                for each in self._places(several, run.bytes // c.itemsize)
            )
            if (process_time() - begin) * (edge / several.n) ** (1 + whole) > _SECONDS:
                return [], None
            (_, _, c), run = self._run(shape)
            stored = run.bytes // c.itemsize
            begin = process_time()
            rows, columns = (np.unique(each) for each in self._places(shape, stored))
            if not len(stored) or self._compare(shape, rows, columns):
                return [], None
            right.append(shape)
            # Parts of rows or columns would also give a block more elements.
            power = 1 + max(0.0, log(len(stored) / max(1, fewer), edge / several.n))
            most = edge * (_SECONDS / (process_time() - begin)) ** (1 / power)
            sizes = (min(largest, -(-size // self.step) * self.step) for size in _LARGE)
            larger = next((size for size in sizes if edge < size <= most), edge)
            if larger == edge:
                return right, None
            shape = Shape.square(larger)
            fault = self._compare(shape, rows + larger - edge, columns + larger - edge)
        except KernelFault as error:
            return right, f"{error} (at size {shape})"
        except StudyError:  # not enough address space for such matrices
            return right, None
        return [*right, *([] if fault else [shape])], fault

    def _least_unlaunched(self, largest: int) -> str | None:
        """Return the smallest size that no GPU can launch, and why; None if all can be launched."""
        for most in (_TIMED, largest):
            if self._unlaunched(most):
                sizes = range(1, most + 1)
                size = sizes[bisect(sizes, False, key=lambda n: self._unlaunched(n) is not None)]
                return f"{self.library.at(0)}: {self._unlaunched(size)}"
        return None

    def _unlaunched(self, n: int, with_grid: bool = False) -> str | None:
        """Return why no GPU can launch a size; None if one can.

        Limits of the grid count for sizes up to `_TIMED`, or for all `with_grid`.
        """
        addresses = [0] * len(self.reading.places)
        for launched in self.library.configured(self.reading.values(Shape.square(n)), addresses):
            if (needed := launched.dynamic_shared_bytes) > MAX_SHARED_BYTES:
                return (
                    f"needs {needed:,} bytes of dynamic shared memory per block at size {n}; a "
                    f"GPU has at most {MAX_SHARED_BYTES:,}"
                )
            is_large = any(size > most for size, most in zip(launched.grid, MAX_GRID, strict=True))
            if is_large and (with_grid or n <= _TIMED):
                return (
                    f"has a grid of {launched.grid} blocks at size {n}; a GPU launches at most "
                    f"{MAX_GRID}"
                )
        return None

    def _run(
        self, shape: Shape, rows: Indices = _NONE, columns: Indices = _NONE, terms: Indices = _NONE
    ) -> tuple[tuple[Array, Array, Array], LastBlock]:
        """Run the last block; all is zero except these rows of A, columns of B and terms."""
        precision = self.reading.precision
        stored = (precision.a, precision.b, precision.c)
        a, b, c = (zeros(shape.m * shape.n, each.dtype) for each in stored)
        left, right, _ = self._matrices(shape, (a, b, c))
        rng = np.random.default_rng(1)
        places = ((left, (rows, terms)), (right, (terms, columns)))
        for (matrix, at), each in zip(places, stored, strict=False):
            matrix[np.ix_(*at)] = each.encoded(rng.integers(-1, 2, [*map(len, at)]))
        values = self.reading.values(shape)
        return (a, b, c), self.library.last_block(values, self.reading.places, [a, b, c])

    def _matrices(self, shape: Shape, flat: Sequence[Array]) -> list[Array]:
        """Return flat arrays as square matrices, in the layout with which they are read."""
        squares = [each.reshape(shape.m, shape.n) for each in flat]
        pairs = zip(squares, self.reading.layout, strict=True)
        return [each.T if in_columns else each for each, in_columns in pairs]

    def _places(self, shape: Shape, stored: Indices) -> tuple[Indices, Indices]:
        """Return the rows and columns of elements of C, given by their numbers."""
        first, second = np.divmod(stored, shape.n)
        return (second, first) if self.reading.layout[2] else (first, second)

    def _compare(self, shape: Shape, rows: Indices, columns: Indices) -> str | None:
        """Return the fault in the elements of C that the last block stored, or None."""
        rng = np.random.default_rng(1)
        last = np.arange(shape.k - _TERMS, shape.k)
        terms = np.union1d(rng.integers(0, shape.k, _TERMS), last)
        flat, run = self._run(shape, rows, columns, terms)
        stored = np.sort(run.bytes) // flat[2].itemsize
        down, across = self._places(shape, stored)
        a, b, _ = self._matrices(shape, flat)
        (over, row), (under, column) = (
            np.unique(each, return_inverse=True) for each in (down, across)
        )
        precision = self.reading.precision
        left = precision.a.decoded(a[np.ix_(over, terms)])
        right = precision.b.decoded(b[np.ix_(terms, under)])
        expected, value = (left @ right)[row, column], precision.c.decoded(flat[2][stored])
        wrong = np.flatnonzero(value != expected)
        if not len(wrong):
            return None
        first = wrong[0]
        return run.cause or (
            f"{self.library.at(min(run.lines, default=0))}: stores C({down[first]}, "
            f"{across[first]}) = {value[first]:.9g}; expected {expected[first]:.9g} "
            f"(at size {shape}): does an index exceed 32 bits?"
        )
