"""How a launch reads its matrices: which names are which, and how they lie in memory.

A kernel for column-major matrices, or for a transposed B, is a correct kernel of another product.
So a check compares a result with each layout and says which one is right.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product

import numpy as np

from kernels.host_execution.binding import Array, Run
from kernels.launches.library import Library, Source
from kernels.launches.roles import SIZES, matrices, meanings
from kernels.products.gate import Verdict, evaluate
from kernels.products.matrices import reference
from kernels.products.shape import Shape

Layout = tuple[bool, bool, bool]  # which of A, B and C lie in columns
ROWS: Layout = (False, False, False)
# What the product is called.
LAYOUTS: dict[Layout, str] = {
    ROWS: "",
    (True, True, True): "column-major matrices",
    (False, True, False): "a transposed B (C = A·Bᵀ)",
    (True, False, False): "a transposed A (C = Aᵀ·B)",
    (True, True, False): "transposed A and B (C = Aᵀ·Bᵀ)",
}
_MOST = 8  # meanings of the names that a check tries
_C_ROUNDOFF = 2.0**-22  # of β·C, relative


@dataclass(frozen=True)
class Operands:
    """The matrices of a product in memory: flat, in the order of addresses, C before the launch."""

    shape: Shape
    a: Array
    b: Array
    c: Array

    @classmethod
    def random(cls, shape: Shape, seed: int, reads_c: bool) -> "Operands":
        """Return seeded matrices; C is NaN, or random for a kernel that may read it."""
        rng = np.random.default_rng(seed)
        counts = (shape.m * shape.k, shape.k * shape.n, shape.m * shape.n)
        a, b, c = (rng.uniform(-1, 1, count).astype(np.float32) for count in counts)
        return cls(shape, a, b, c if reads_c else np.full_like(c, np.nan))

    def viewed(self, layout: Layout, c: Array) -> tuple[Array, Array, Array]:
        """Return A, B and a product as matrices, as a layout reads them."""
        shape = self.shape
        sizes = ((shape.m, shape.k), (shape.k, shape.n), (shape.m, shape.n))
        a, b, c = (
            flat.reshape(size[::-1]).T if in_columns else flat.reshape(size)
            for flat, size, in_columns in zip((self.a, self.b, c), sizes, layout, strict=True)
        )
        return a, b, c

    def verdict(
        self, layout: Layout, result: Array, alpha: float = 1.0, beta: float = 0.0
    ) -> Verdict:
        """Compare a product with its error bound."""
        a, b, c = self.viewed(layout, result)
        expected, bound = reference(a[None], b[None])
        if beta:
            added = beta * self.viewed(layout, self.c)[2].astype(np.float64)
            expected, bound = alpha * expected + added, abs(alpha) * bound
            bound = bound + _C_ROUNDOFF * (np.abs(added) + np.abs(expected))
        return evaluate(np.ascontiguousarray(c)[None], expected, bound)


@dataclass(frozen=True)
class Reading:
    """What the names of a launch mean: numbers, matrices (A, B or C), and their layout."""

    numbers: Mapping[str, str]
    matrices: Mapping[str, str]
    is_square: bool  # one size stands for all
    reads_c: bool = False  # the product is α·A·B + β·C
    layout: Layout = ROWS

    @property
    def has_leading_dimensions(self) -> bool:
        """Whether the kernel gets leading dimensions, which depend on the layout."""
        return bool({"LDA", "LDB", "LDC"} & set(self.numbers.values()))

    def values(self, shape: Shape, alpha: float = 1.0, beta: float = 0.0) -> list[float]:
        """Return the values of the launch's numbers for a shape."""
        a, b, c = self.layout
        values: dict[str, float] = {"M": shape.m, "N": shape.n, "K": shape.k, "STREAM": 0}
        values |= {"ALPHA": alpha, "BETA": beta}
        values |= {"LDA": shape.m if a else shape.k, "LDB": shape.k if b else shape.n}
        values |= {"LDC": shape.m if c else shape.n}
        return [values[meaning] for meaning in self.numbers.values()]

    def run(
        self,
        library: Library,
        operands: Operands,
        geometry: tuple[Sequence[int], Sequence[int]] | None = None,
    ) -> Array:
        """Return the flat C; raise KernelFault."""
        return self.counted_run(library, operands, geometry)[0]

    def counted_run(
        self,
        library: Library,
        operands: Operands,
        geometry: tuple[Sequence[int], Sequence[int]] | None = None,
    ) -> tuple[Array, list[Run]]:
        """Return the flat C and the runs of the launches; raise KernelFault."""
        places = ["ABC".index(matrix) for matrix in self.matrices.values()]
        arrays = [operands.a, operands.b, operands.c.copy()]
        result = None if self.reads_c else 2
        runs = library.multiply(self.values(operands.shape), places, arrays, geometry, result)
        return arrays[2], runs


def readings(source: Source) -> Iterator[Reading]:
    """Yield the readings of a launch that a check tries, the likeliest first."""
    names = list(source.scope.numbers)
    implied = {name: name for name in names if name in SIZES and name not in source.arguments}
    asked = [name for name in names if name not in implied]
    for found, places in islice(product(meanings(asked), matrices(source.scope.pointers)), _MOST):
        numbers = {name: (implied | found)[name] for name in names}
        sizes = {found[name] for name in asked if name in source.arguments} & set(SIZES)
        reading = Reading(numbers, places, len(sizes) < 2, source.reads_c)
        yield reading
        if reading.has_leading_dimensions:
            for layout in list(LAYOUTS)[1:]:
                yield replace(reading, layout=layout)
