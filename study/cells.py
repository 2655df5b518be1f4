"""Cells: the configurations to measure, planned from the study and the catalogs of variants."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import cpu_reference.catalog
from kernels.catalog.product import Product
from kernels.products.elements import exact
from kernels.products.matrices import Problem
from kernels.products.shape import Shape
from kernels.theory.tiles import BlockSize
from study.config import CpuStudy, Study

CPU = "cpu"


@dataclass(frozen=True)
class Cell:
    """A product to measure on one device.

    `host_memory` names the location of the matrices (`kernels.catalog.locations`); it is None on a
    CPU. `threads` is None on a GPU.
    """

    device: str
    product: Product
    host_memory: str | None = None
    threads: int | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Cell":
        """Return the cell that a recording's row describes; None in the row means no value."""
        return cls(row["device"], Product.of(row), row["host_memory"], row["threads"])

    @classmethod
    def kernel_of(cls, row: Mapping[str, Any]) -> "Cell":
        """Return the `kernel` that a recording's row describes: a cell without host memory."""
        return cls(row["device"], Product.of(row))

    @property
    def kernel(self) -> "Cell":
        """The cell without host memory: all cells that differ only in it run the same kernel."""
        return replace(self, host_memory=None)

    def kernel_row(self) -> dict[str, Any]:
        """Return the kernel as columns of a recording's row (`measurement.recording.schema`)."""
        return {"device": self.device, **self.product.row()}

    def row(self) -> dict[str, Any]:
        """Return the cell as columns of a recording's row (`measurement.recording.schema`)."""
        return self.kernel_row() | {"host_memory": self.host_memory, "threads": self.threads}

    def __str__(self) -> str:
        dtype = "" if self.dtype == "float32" else f" {self.dtype}"
        block = "" if self.block_size is None else f" B={self.block_size}"
        memory = "" if self.host_memory is None else f" {self.host_memory}"
        size = f"N={self.shape.n}" if self.shape.is_square else str(self.shape)
        threads = f" {self.threads} threads" if self.threads and self.threads > 1 else ""
        return f"{self.device} {self.variant}{dtype}{block} {size}{memory}{threads}"

    @property
    def variant(self) -> str:
        """The name of the variant."""
        return self.product.variant

    @property
    def dtype(self) -> str:
        """The element type."""
        return self.product.dtype

    @property
    def shape(self) -> Shape:
        """The shape of the product."""
        return self.product.shape

    @property
    def block_size(self) -> BlockSize:
        """The block size."""
        return self.product.block_size

    @property
    def bound_multiple(self) -> float:
        """The cell's error bound over that of sums in the order of k (`Variant.roundoffs`)."""
        k = self.shape.k
        return 1.0 if self.device == CPU else self.product.entry.roundoffs(k) / k


def cell(
    device: str,
    name: str,
    dtype: str,
    shape: Shape,
    block_size: BlockSize = None,
    host_memory: str | None = None,
    threads: int | None = None,
) -> Cell:
    """Return the cell that measures a variant on these matrices on a device."""
    return Cell(device, Product(name, dtype, shape, block_size), host_memory, threads)


def cpu_cells(study: Study, all_threads: int) -> list[Cell]:
    """Return the cells that a study measures on the CPU, small sizes first.

    `all_threads` is the number of threads that "all" means on the measured host. If all counts of
    the study are larger, it replaces them. Variants that are not parallel run on one thread.
    """
    return sorted(_cpu_cells(study.cpu, all_threads), key=lambda cell: cell.shape.flop)


def _cpu_cells(study: CpuStudy, all_threads: int) -> Iterable[Cell]:
    largest = {limit.variant: limit.largest_size for limit in study.size_limits}
    most_flop = {one.threads: Shape.square(one.largest_size).flop for one in study.size_limits}
    wanted = {all_threads if count == "all" else count for count in study.threads}
    counts = sorted(count for count in wanted if count <= all_threads) or [all_threads]
    for name in study.variants:
        entry = cpu_reference.catalog.variant(name)
        shapes = [Shape.square(n) for n in study.sizes if n <= largest.get(name, n)]
        shapes += [] if entry.compiled else [Shape.parse(text) for text in study.shapes]
        for shape in shapes:
            for block in study.block_sizes if entry.blocked else [None]:
                for threads in counts if entry.parallel else [1]:
                    if threads == all_threads or shape.flop <= most_flop.get(threads, math.inf):
                        yield cell(CPU, name, "float32", shape, block, threads=threads)


def gpu_cells(study: Study, device: str) -> list[Cell]:
    """Return a study's cells on one GPU, small products first, launchable or not."""
    placed = dict.fromkeys(study.placed_products())
    cells = [Cell(device, product, location) for product, location in placed]
    return sorted(cells, key=lambda cell: cell.shape.flop)


def problems(cells: list[Cell]) -> tuple[Problem, ...]:
    """Return the shapes and types of the matrices that cells need, padded operands included."""
    wanted = {(cell.dtype, cell.shape): None for cell in cells}
    wanted |= {(exact(cell.dtype), cell.shape): None for cell in cells}
    wanted |= {(cell.dtype, cell.product.operands): None for cell in cells if cell.device != CPU}
    return tuple(wanted)
