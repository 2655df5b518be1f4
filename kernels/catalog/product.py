"""A product to compute: a variant on matrices of one shape and element type."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from kernels.catalog.catalog import Catalog
from kernels.catalog.entries import VARIANTS
from kernels.catalog.variant import (
    PIECES,
    CatalogKernel,
    DeviceStep,
    Kernel,
    Launch,
    Tile,
    UserSupplied,
    Variant,
)
from kernels.products.elements import ELEMENTS, exact
from kernels.products.shape import Shape
from kernels.theory.addresses import KernelAccesses
from kernels.theory.cost import Access
from kernels.theory.tiles import BlockSize, number_of


@dataclass(frozen=True)
class Product:
    """A variant with its block size, on matrices of one shape and element type.

    `catalog` contains the variant. In a CPU cell the variant is one of `cpu_reference.catalog`, and
    only the fields of this class are defined.
    """

    variant: str
    dtype: str
    shape: Shape
    block_size: BlockSize = None
    catalog: Catalog = field(default=VARIANTS, compare=False, repr=False)

    @classmethod
    def of(cls, row: Mapping[str, Any], catalog: Catalog = VARIANTS) -> "Product":
        """Return the product that a recording's row describes; None means no block size."""
        name, number = row["variant"], row["block_size"]
        block_size = catalog[name].block_size(number) if name in catalog else number
        shape = Shape(row["batch"], row["m"], row["n"], row["k"])
        return cls(name, row["dtype"], shape, block_size, catalog)

    def row(self) -> dict[str, Any]:
        """Return the product as columns of a recording's row."""
        return {
            "variant": self.variant,
            "dtype": self.dtype,
            **vars(self.shape),
            "block_size": number_of(self.block_size),
        }

    @property
    def entry(self) -> Variant:
        """The variant's entry in the catalog; raises StudyError if there is none."""
        return self.catalog.variant(self.variant)

    @property
    def is_user_supplied(self) -> bool:
        """Whether the variant is user-supplied."""
        return isinstance(self.catalog.get(self.variant), UserSupplied)

    @property
    def kernel(self) -> Kernel | None:
        """The CUDA kernel that computes the product; None for libraries and user-supplied calls."""
        entry = self.entry
        return entry if isinstance(entry, Kernel) else None

    @property
    def operands(self) -> Shape:
        """The shape that the kernel multiplies: larger than `shape` where the host pads."""
        step = self.entry.host_step
        return step.operands(self.shape, self.block_size) if step else self.shape

    @property
    def matrix_bytes(self) -> tuple[int, int, int]:
        """The bytes of A, B and C with the edges that the kernel multiplies."""
        seen, size = self.operands, ELEMENTS[self.dtype].bytes
        of_c = ELEMENTS[exact(self.dtype)].bytes
        return seen.a_elements * size, seen.b_elements * size, seen.c_elements * of_c

    @property
    def tile(self) -> Tile:
        """The part of the product that a block computes per iteration."""
        return self.kernel.tile(self.block_size) if self.kernel else (1, 1, 1)

    @property
    def is_guarded(self) -> bool:
        """Whether the tile does not divide the matrices, so that the bounds-checked build runs."""
        seen = self.operands
        edges = zip((seen.m, seen.n, seen.k), self.tile, strict=True)
        return any(edge % width for edge, width in edges)

    @property
    def launch(self) -> Launch:
        """The geometry of the launch; zeros if a library or the user's code launches the kernel."""
        if self.kernel is None:
            return Launch((0, 0, 0), (0, 0))
        return self.kernel.geometry(self.operands, self.block_size)

    @property
    def arguments(self) -> tuple[int, ...]:
        """The kernel's arguments after the matrices: n, or m, n and k."""
        seen = self.operands
        return (seen.n,) if self.entry.shapes == "square" else (seen.m, seen.n, seen.k)

    @property
    def device_step(self) -> DeviceStep | None:
        """The kernel that prepares A and B on the GPU; None if the shape needs none."""
        step = self.kernel and self.kernel.device_step
        return step if step and step.needed(self.shape) else None

    @property
    def prepared_bytes(self) -> int:
        """The bytes of the operands that a `DeviceStep` prepares from A and B."""
        step = self.device_step
        lines = (self.shape.m, self.shape.n)
        return sum(step.bytes(count, self.shape.k) for count in lines) if step else 0

    @property
    def piece_counts(self) -> list[int]:
        """The numbers of pieces per GPU that the recorder tries; the first is the default."""
        tiles = -(-self._tile_rows // self.entry.gpus)
        counts = [-(-tiles // of_piece) for of_piece in self.entry.piece_tiles] or [PIECES]
        return list(dict.fromkeys(counts))

    def pieces(self, count: int) -> list[list[tuple[int, int]]]:
        """Return for each GPU the pieces of a run: first row and number of rows of A and of C.

        A GPU has `count` pieces of whole tiles, or fewer if it has fewer tiles.
        """
        rows, m = self.tile[0], self.shape.m
        rows_per_gpu = -(-self._tile_rows // self.entry.gpus) * rows  # per GPU
        most = -(-rows_per_gpu // rows // count) * rows
        ends = [min(gpu * rows_per_gpu, m) for gpu in range(self.entry.gpus + 1)]
        return [
            [(first, min(most, end - first)) for first in range(begin, end, most)]
            for begin, end in pairwise(ends)
        ]

    @property
    def _tile_rows(self) -> int:
        return -(-self.shape.m // self.tile[0])

    @property
    def sums_per_thread(self) -> int:
        """The number of elements of C that a thread computes; 0 if it is unknown."""
        if self.kernel is None:
            return 0
        rows, columns, _ = self.tile
        block = self.kernel.geometry(Shape.square(1), self.block_size)
        return rows * columns // block.threads_per_block

    @property
    def has_theory(self) -> bool:
        """Whether the catalog has the theory of its memory accesses."""
        return isinstance(self.entry, CatalogKernel) and self.entry.theory is not None

    def accesses(self) -> list[Access]:
        """Return the theory of the kernel's memory accesses."""
        entry = self.entry
        assert isinstance(entry, CatalogKernel), f"{self.variant} has no theory"
        assert entry.theory, f"{self.variant} has no theory"
        kernel = KernelAccesses(self.operands, ELEMENTS[self.dtype].bytes)
        return entry.theory(kernel, self.block_size)


def with_entry(entry: Variant, dtype: str, shape: Shape) -> Product:
    """Return the product of a variant that need not be in the catalog and has no block size."""
    return Product(entry.name, dtype, shape, catalog=VARIANTS.joined(entry))


def products_of(
    variants: Sequence[str],
    dtypes: Sequence[str],
    wanted_block_sizes: Sequence[int],
    shapes: Sequence[Shape],
    catalog: Catalog = VARIANTS,
) -> Iterator[Product]:
    """Yield those products of a series that its variants support; raise StudyError."""
    for name in variants:
        entry = catalog.variant(name)
        for dtype in dtypes:
            for block in block_sizes(entry, wanted_block_sizes):
                for shape in shapes:
                    if dtype in entry.dtypes and entry.takes(shape):
                        yield Product(name, dtype, shape, block, catalog)


def block_sizes(entry: Variant, wanted: Sequence[int]) -> list[BlockSize]:
    """Return which of the `wanted` block sizes a variant has.

    A variant with fixed block sizes returns all of them, one without block size [None].
    """
    if entry.block_sizes is None:
        return [None]
    if entry.fixed_blocks:
        return list(entry.block_sizes)
    return [b for b in wanted if b in entry.block_sizes]
