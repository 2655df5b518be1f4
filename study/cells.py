"""Cells: what is measured, planned from the study and the catalogs."""

from dataclasses import dataclass

import cpu_reference.catalog
from kernels.catalog.entries import variant
from kernels.products.matrices import Problem
from kernels.products.shape import Shape
from study.config import CpuStudy, Study
from study.plan import products

CPU = "cpu"


@dataclass(frozen=True)
class Cell:
    """One thing to measure: a variant on `batch` products of m×k by k×n matrices.

    `block_size`, `host_memory` and `threads` (of a CPU) are None where they do not apply.
    """

    device: str
    variant: str
    dtype: str
    batch: int
    m: int
    n: int
    k: int
    block_size: int | None
    host_memory: str | None
    threads: int | None = None

    def __str__(self) -> str:
        dtype = "" if self.dtype == "float32" else f" {self.dtype}"
        block = "" if self.block_size is None else f" B={self.block_size}"
        memory = "" if self.host_memory is None else f" {self.host_memory}"
        size = f"N={self.n}" if self.shape.is_square else str(self.shape)
        threads = f" {self.threads} threads" if self.threads and self.threads > 1 else ""
        return f"{self.device} {self.variant}{dtype}{block} {size}{memory}{threads}"

    @property
    def shape(self) -> Shape:
        """The shape of the product."""
        return Shape(self.batch, self.m, self.n, self.k)

    @property
    def bound_multiple(self) -> float:
        """The bound on a product's error, over that of sums one by one (`Variant.roundoffs`)."""
        return 1.0 if self.device == CPU else variant(self.variant).roundoffs(self.k) / self.k


def cell(
    device: str,
    name: str,
    dtype: str,
    shape: Shape,
    block_size: int | None = None,
    host_memory: str | None = None,
    threads: int | None = None,
) -> Cell:
    """Return the cell of a product of this shape."""
    edges = (shape.batch, shape.m, shape.n, shape.k)
    return Cell(device, name, dtype, *edges, block_size, host_memory, threads)


def cpu_cells(study: Study, all_threads: int) -> list[Cell]:
    """Return the CPU's cells of a study, small orders first, on one thread and on `all_threads`."""
    cells = [
        cell(CPU, name, "float32", Shape.square(n), block, threads=threads)
        for name, n, block, threads in _cpu_products(study.cpu, all_threads)
    ]
    return sorted(cells, key=lambda cell: cell.n)


def _cpu_products(study: CpuStudy, all_threads: int) -> list[tuple[str, int, int | None, int]]:
    """Return (variant, n, block size, threads) of every CPU cell of a study.

    `all_threads` is what its "all" means on the host that measures. Variants that are not parallel
    run on one thread.
    """
    largest = {limit.variant: limit.largest_size for limit in study.size_limits}
    counts = sorted({all_threads if count == "all" else count for count in study.threads})
    return [
        (name, n, block, threads)
        for name in study.variants
        for n in study.sizes
        if n <= largest.get(name, n)
        for block in (study.block_sizes if cpu_reference.catalog.variant(name).blocked else [None])
        for threads in (counts if cpu_reference.catalog.variant(name).parallel else [1])
    ]


def gpu_cells(study: Study, device: str) -> list[Cell]:
    """Return the cells of one GPU of a study, small products first, launchable or not."""
    cells = [
        cell(device, one.variant, one.dtype, one.shape, one.block_size, memory)
        for one in products(study)
        for memory in study.host_memory
        if variant(one.variant).takes_memory(memory)
    ]
    return sorted(cells, key=lambda cell: cell.shape.flop)


def problems(cells: list[Cell]) -> tuple[Problem, ...]:
    """Return the matrices that these cells need, as given and as a kernel sees them (padded)."""
    found = {(cell.dtype, cell.shape): None for cell in cells}
    for cell in cells:
        if cell.device != CPU:
            seen = variant(cell.variant).operands(cell.shape, cell.block_size)
            found[cell.dtype, seen] = None
    return tuple(found)
