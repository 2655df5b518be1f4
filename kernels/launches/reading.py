"""How a launch reads its matrices: the meaning of its names, and the layout in memory.

A kernel for column-major matrices, or for a transposed B, computes another product correctly.
Therefore a check compares a result with the product in each layout and says which one matches.
"""

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kernels.host_execution.binding import Array, KernelFault, Run
from kernels.host_execution.compiler import NotSupported
from kernels.launches.library import Library
from kernels.launches.precision import FLOATS, Precision
from kernels.launches.roles import ADDEND, BATCH, FACTOR, FACTORS, WORKSPACE
from kernels.products.elements import Stored
from kernels.products.gate import Verdict, evaluate
from kernels.products.matrices import POISON_WORD, reference_within
from kernels.products.shape import Shape

Layout = tuple[bool, bool, bool]  # whether A, B and C are column-major
ROWS: Layout = (False, False, False)
# What the product is called in verdicts.
LAYOUTS: dict[Layout, str] = {
    ROWS: "",
    (True, True, True): "column-major matrices",
    (False, True, False): "a transposed B (C = A·Bᵀ)",
    (True, False, False): "a transposed A (C = Aᵀ·B)",
    (True, True, False): "transposed A and B (C = Aᵀ·Bᵀ)",
    (False, True, True): "columns of B and C",
    (True, False, True): "columns of A and C",
    (False, False, True): "columns of C",
}
# What a kernel does with numbers that C contains before the launch.
C_BEFORE = {"ignored": "finite numbers in C before it", "added": "the sum in C (C += A·B)"}
Factors = tuple[float, float]  # alpha and beta
ONE: Factors = (1.0, 0.0)
_WORD_BYTES = 4
_MOST_WORKSPACE_BYTES = 1 << 28
LARGE, _LARGE_VALUE = 6, 1024.0  # seed for large numbers, and their limit
_FIRST_WITH_ZEROS, _ZEROS = 3, 0.1  # first seed with zeros, and their share
_C_ROUNDOFF = 2.0**-22  # relative roundoff of β·C


@dataclass(frozen=True)
class Operands:
    """The matrices of a product as flat arrays in memory; C is as before the launch."""

    shape: Shape
    precision: Precision
    a: Array
    b: Array
    c: Array
    is_whole: bool = False

    @classmethod
    def random(
        cls, shape: Shape, seed: int, reading: "Reading", is_whole: bool = False
    ) -> "Operands":
        """Return seeded matrices; C is NaN, or random for a kernel that may read it.

        If it loads C without a factor, C is NaN for odd seeds and 0 for even ones, to show whether
        the product depends on C. `is_whole`: the numbers are -1, 0 and 1, whose sums are exact in
        every type. From `_FIRST_WITH_ZEROS` on, seeds make some numbers zero. The seed `LARGE`
        makes large numbers, unless C has 16 bits.
        """
        rng = np.random.default_rng(seed)
        precision = reading.precision
        counts = [shape.a_elements, shape.b_elements, shape.c_elements]
        if reading.shares_b:
            counts[1] //= shape.batch
        types = (precision.a, precision.b, precision.c)
        limit = _LARGE_VALUE if seed == LARGE and not precision.c.is_short else 1.0

        def drawn(stored: Stored, count: int) -> Array:
            if is_whole:
                return stored.encoded(rng.integers(-1, 2, count))
            kept = rng.random(count) >= _ZEROS if seed >= _FIRST_WITH_ZEROS else 1
            if stored.digits:
                return stored.encoded(rng.uniform(-limit, limit, count) * kept)
            is_unsigned = np.issubdtype(stored.dtype, np.unsignedinteger)
            least = 0 if is_unsigned else 64 if seed == LARGE else -128
            return stored.encoded(rng.integers(least, 128, count) * kept)

        a, b, c = (drawn(stored, count) for stored, count in zip(types, counts, strict=True))
        if not reading.reads_c:
            c.view(np.uint8).fill(0 if reading.loads_c and seed % 2 == 0 else 0xFF)
        return cls(shape, precision, a, b, c, is_whole)

    def viewed(self, layout: Layout, c: Array) -> tuple[Array, Array, Array]:
        """Return A, B and a product as batches of matrices, read in a layout."""
        shape, precision = self.shape, self.precision
        sizes = ((shape.m, shape.k), (shape.k, shape.n), (shape.m, shape.n))
        types = (precision.a, precision.b, precision.c)
        each = zip(types, (self.a, self.b, c), sizes, layout, strict=True)
        a, b, c = (
            stored.decoded(flat).reshape(-1, *size[::-1]).swapaxes(1, 2)
            if in_columns
            else stored.decoded(flat).reshape(-1, *size)
            for stored, flat, size, in_columns in each
        )
        return a, b, c

    def verdict(
        self, layout: Layout, result: Array, factors: Factors, is_rectified: bool = False
    ) -> Verdict:
        """Return the comparison of a product with its error bound; integers must be exact.

        `is_rectified`: zeros replace negative elements (ReLU).
        """
        alpha, beta = factors
        a, b, c = self.viewed(layout, result)
        roundoffs = (0.0, 0.0, 0.0) if self.is_whole else self.precision.roundoffs
        expected, bound = reference_within(a, b, *roundoffs)
        if factors != ONE:
            added = beta * self.viewed(layout, self.c)[2]
            expected, bound = alpha * expected + added, abs(alpha) * bound
            bound = bound + _C_ROUNDOFF * (np.abs(added) + np.abs(expected))
        expected = np.maximum(expected, 0) if is_rectified else expected
        return evaluate(np.ascontiguousarray(c), expected, bound)


@dataclass(frozen=True)
class Reading:
    """One meaning of the names in a launch: numbers, matrices and their layout.

    A matrix is A, B or C, the `ADDEND` of C or a `WORKSPACE`.
    """

    numbers: Mapping[str, str]
    matrices: Mapping[str, str]
    is_square: bool  # the launch has one size for M, N and K
    reads_c: bool = False  # the product is α·A·B + β·C
    loads_c: bool = False  # C is loaded, but the product does not depend on it
    c_before: str = ""  # the use of what the file stores in C: a key of `C_BEFORE`
    layout: Layout = ROWS
    precision: Precision = FLOATS
    takes_padding: bool = False  # the launch has leading dimensions as separate numbers
    shares_b: bool = False  # all products have the same B
    padding: int = 0  # padding elements after rows of A; B has twice, C three times as many

    def fitted(self, shape: Shape) -> Shape:
        """Return a shape with equal sizes wherever the launch has one number for both."""
        meanings = self.numbers.values()
        shape = replace(shape, m=shape.n) if "MN" in meanings else shape
        return replace(shape, k=shape.n) if "NK" in meanings else shape

    def typed(self, library: Library) -> "Reading":
        """Return the reading with the element types that a library's pointers have."""
        values = self.values(Shape.square(128))
        elements = library.elements(values, len(self.matrices))
        types = dict(zip(self.matrices.values(), elements, strict=True))
        if types.get(ADDEND, types["C"]) != types["C"]:
            raise NotSupported(f"{library.name}: adds a matrix of another type than its result")
        copies = zip(self.matrices.values(), elements, strict=True)
        short = [stored for matrix, stored in copies if matrix == WORKSPACE and stored.is_short]
        rounded_to = next(iter(short), self.precision.rounded_to)
        if types["A"].is_short or not types["A"].digits:
            rounded_to = None
        precision = replace(self.precision, a=types["A"], b=types["B"], c=types["C"])
        return replace(self, precision=replace(precision, rounded_to=rounded_to))

    @property
    def is_batched(self) -> bool:
        """Whether a number of the launch is the number of products in a batch."""
        return BATCH in self.numbers.values()

    @property
    def has_leading_dimensions(self) -> bool:
        """Whether the kernel gets leading dimensions, which depend on the layout."""
        return bool({"LDA", "LDB", "LDC"} & set(self.numbers.values()))

    @property
    def factors(self) -> Factors:
        """The factors that give a plain product; an addend without a factor is added in full."""
        is_added = self.has_addend and "BETA" not in self.numbers.values()
        return (1.0, 1.0) if is_added or self.c_before == "added" else ONE

    def values(self, shape: Shape, factors: Factors | None = None) -> list[float]:
        """Return the values of the launch's numbers for a shape."""
        values: dict[str, float] = {"M": shape.m, "N": shape.n, "K": shape.k, "MN": shape.n}
        values |= {"NK": shape.n, "STREAM": 0, BATCH: shape.batch, FACTOR: 1}
        elements = shape.m * shape.k, shape.k * shape.n, shape.m * shape.n
        values |= {f"STRIDE{matrix}": size for matrix, size in zip("ABC", elements, strict=True)}
        values |= dict(zip(FACTORS, factors or self.factors, strict=True))
        values |= {f"LD{'ABC'[place]}": sum(self._row(place, shape)) for place in range(3)}
        return [values[meaning] for meaning in self.numbers.values()]

    def run(
        self,
        library: Library,
        operands: Operands,
        geometry: tuple[Sequence[int], Sequence[int]] | None = None,
        fill: int = POISON_WORD,
        factors: Factors | None = None,
    ) -> tuple[Array, list[Run]]:
        """Run the launches; return the flat C and the result of each run.

        `geometry` and `fill` are as for `Library.multiply`. Raise KernelFault, also if A or B is
        overwritten.
        """
        values = self.values(operands.shape, factors)
        a, b, result = (
            self._with_padding(place, matrix, operands.shape)
            for place, matrix in enumerate((operands.a, operands.b, operands.c))
        )
        inputs = {0: a, 1: b}
        if self.has_addend:
            inputs[3] = result
            result = np.full_like(result.view(np.uint8), 0xFF).view(result.dtype)
        arrays = [each.copy() for each in (a, b, result, *[*inputs.values()][2:])]
        unset = {*range(len(arrays), len(arrays) + self.workspaces)}
        unset |= set() if self.loads_c or (self.reads_c and not self.has_addend) else {2}
        arrays += self._workspaces(library, values)
        try:
            runs = library.multiply(values, self.places, arrays, geometry, unset, fill)
        except KernelFault as fault:
            text = self._with_elements(str(fault), operands.shape, arrays)
            raise fault.with_text(text) from None
        for place, before in inputs.items():
            words = self._words(place)
            stored = np.max([run.stored_by[place] for run in runs], axis=0)  # lines
            is_changed = arrays[place].view(np.uint8) != before.view(np.uint8)
            changed = np.flatnonzero(is_changed) // before.itemsize * words
            places = [*np.flatnonzero(stored)[:1], *changed[:1]]
            if places:
                number, count = int(places[0]) // words, len(arrays[place])
                element = self._element(place, number, operands.shape, count)
                line = stored[places[0]]
                raise KernelFault(f"{library.at(line)}: stores to {element}, an input")
        return self._without_padding(library, arrays[2], runs, operands.shape), runs

    def _row(self, place: int, shape: Shape) -> tuple[int, int]:
        """Return elements and padding of one row (or column) of A, B or C in memory."""
        lengths = ((shape.k, shape.m), (shape.n, shape.k), (shape.n, shape.m))
        is_padded = f"LD{'ABC'[place]}" in self.numbers.values()
        return lengths[place][self.layout[place]], self.padding * (place + 1) * is_padded

    def _with_padding(self, place: int, flat: Array, shape: Shape) -> Array:
        """Return a matrix in memory with NaN as padding after each row."""
        row, padding = self._row(place, shape)
        padded = np.full((len(flat) // row, (row + padding) * flat.itemsize), 0xFF, np.uint8)
        padded[:, : row * flat.itemsize] = flat.view(np.uint8).reshape(len(padded), -1)
        return padded.reshape(-1).view(flat.dtype)

    def _without_padding(
        self, library: Library, result: Array, runs: Sequence[Run], shape: Shape
    ) -> Array:
        """Return C without padding of its rows; raise KernelFault if padding was overwritten."""
        row, padding = self._row(2, shape)
        if not padding:
            return result
        lines = np.max([run.stored_by[2] for run in runs], axis=0)
        between = lines.reshape(-1, (row + padding) * self._words(2))[:, row * self._words(2) :]
        if between.any():
            raise KernelFault(f"{library.at(int(between.max()))}: stores behind a row of C")
        return np.ascontiguousarray(result.reshape(-1, row + padding)[:, :row]).reshape(-1)

    @property
    def has_addend(self) -> bool:
        """Whether the product is D = α·A·B + β·C."""
        return ADDEND in self.matrices.values()

    @property
    def result(self) -> str:
        """The name of the matrix that contains the product."""
        return "D" if self.has_addend else "C"

    @property
    def workspaces(self) -> int:
        """The number of workspaces: buffers that steps allocate."""
        return list(self.matrices.values()).count(WORKSPACE)

    @property
    def places(self) -> list[int]:
        """For each pointer of the launch the index of its buffer: A, B, C, addend, workspaces."""
        numbers = {"A": 0, "B": 1, "C": 2, ADDEND: 3}
        workspaces = itertools.count(3 + self.has_addend)
        return [
            next(workspaces) if matrix == WORKSPACE else numbers[matrix]
            for matrix in self.matrices.values()
        ]

    @property
    def _buffers(self) -> list[str]:
        """The names of the buffers, for messages."""
        first = ["A", "B", "D", "C"] if self.has_addend else ["A", "B", "C"]
        return first + [name for name, each in self.matrices.items() if each == WORKSPACE]

    def _workspaces(self, library: Library, values: Sequence[float]) -> list[Array]:
        """Return the memory that steps allocate; raise NotSupported for too little or too much."""
        if not self.workspaces:
            return []
        elements = library.elements(values, len(self.matrices))
        allocated = library.allocated(values, len(self.matrices))
        buffers = []
        for named, stored, size in zip(self.matrices.items(), elements, allocated, strict=True):
            if named[1] != WORKSPACE:
                continue
            itemsize = np.dtype(stored.dtype).itemsize
            if not itemsize <= size <= _MOST_WORKSPACE_BYTES:
                raise NotSupported(
                    f"{library.name}: cudaMalloc(&{named[0]}, ...) allocates {size:,} bytes; use "
                    f"{itemsize} to {_MOST_WORKSPACE_BYTES:,}"
                )
            buffers.append(np.empty(size // itemsize, stored.dtype))
            buffers[-1].view(np.uint8).fill(0xFF)
        return buffers

    def word(self, shape: Shape, row: int, column: int) -> int:
        """Return the index of an element's first word in C, as in `Run.stored_by`."""
        if self.layout[2]:  # row numbers continue through all products of a batch
            before, place = divmod(row, shape.m)
            line = before * shape.n + column
        else:
            line, place = row, column
        return (line * sum(self._row(2, shape)) + place) * self._words(2)

    def _words(self, place: int) -> int:
        stored = (self.precision.a, self.precision.b, self.precision.c)[min(place, 2)]
        return max(1, np.dtype(stored.dtype).itemsize // _WORD_BYTES)

    def _with_elements(self, fault: str, shape: Shape, arrays: Sequence[Array]) -> str:
        """Return a fault's message in which elements of matrices replace bytes of buffers."""

        def named(match: re.Match[str]) -> str:
            place = int(match[2])
            number, count = int(match[1]) // arrays[place].itemsize, len(arrays[place])
            if place < len(arrays) - self.workspaces:
                return "at " + self._element(place, number, shape, count)
            return f"at element {number} of {self._buffers[place]}, which has {count} elements,"

        return re.sub(r"at byte (-?\d+) of buffer (\d+)", named, fault)

    def _element(self, place: int, number: int, shape: Shape, count: int) -> str:
        """Return the name of an element of a matrix, from its number in order of addresses."""
        name, matrix = self._buffers[place], min(place, 2)
        row, padding = self._row(matrix, shape)
        line, column = divmod(number, row + padding)
        if not 0 <= number < count or column >= row:
            return f"element {number} of {name}, which has {count} elements,"
        indices = (column, line) if self.layout[matrix] else (line, column)
        return f"{name}({indices[0]}, {indices[1]})"
