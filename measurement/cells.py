"""Cells: what is measured, planned from the study and the catalogs."""

from dataclasses import dataclass
from typing import Any

import cpu_reference.catalog
import kernels.catalog

CPU = "cpu"


@dataclass(frozen=True)
class Cell:
    """One thing to measure. `block_size` and `host_memory` are None where they do not apply."""

    device: str
    variant: str
    dtype: str
    n: int
    block_size: int | None
    host_memory: str | None

    def __str__(self) -> str:
        block = "" if self.block_size is None else f" B={self.block_size}"
        memory = "" if self.host_memory is None else f" {self.host_memory}"
        return f"{self.device} {self.variant}{block} N={self.n}{memory}"


def cpu_cells(study: dict[str, Any]) -> list[Cell]:
    """Return the CPU's cells of a study, small orders first."""
    cells = [
        Cell(CPU, name, dtype, n, block, None)
        for dtype in study["dtypes"]
        for name, n, block in cpu_reference.catalog.cells(study["cpu"])
    ]
    return sorted(cells, key=lambda cell: cell.n)


def gpu_cells(study: dict[str, Any], device: str) -> list[Cell]:
    """Return the cells of one GPU of a study, small orders first, launchable or not."""
    cells = [
        Cell(device, name, dtype, n, block, memory)
        for dtype in study["dtypes"]
        for name in study["variants"]
        for block in kernels.catalog.block_sizes(name, study["block_sizes"])
        for n in [*study["sizes"], *study["holdout_sizes"]]
        for memory in study["host_memory"]
        if kernels.catalog.within_limits(study, n, block)
    ]
    return sorted(cells, key=lambda cell: cell.n)
