"""Selections of rows: of summary.csv by size, library and memory; of ceilings.csv by GPU."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis.domain import CPU, HOST_MEMORY_ORDER, SIZES, SOURCE_SIZE, preferred_memory
from kernels.catalog.baselines import NAIVE_BLOCK
from kernels.catalog.catalog import Catalog
from kernels.catalog.entries import LIBRARIES, VARIANTS
from kernels.catalog.product import Product


def whole(value: Any) -> int | None:
    """Return a whole number from a table; None for an empty value (no block size)."""
    return None if pd.isna(value) else int(value)


def is_square(cells: pd.DataFrame) -> pd.Series:
    """Return a mask of the rows that are single products of square matrices."""
    return (cells["m"] == cells["n"]) & (cells["k"] == cells["n"]) & (cells["batch"] == 1)


def product_of(row: Mapping[str, Any], catalog: Catalog = VARIANTS) -> Product:
    """Return the product of a table's row."""
    edges = {name: int(row[name]) for name in ("batch", "m", "n", "k")}
    numbers = {**edges, "block_size": whole(row["block_size"])}
    return Product.of({"variant": row["variant"], "dtype": row["dtype"], **numbers}, catalog)


def is_library(cells: pd.DataFrame) -> pd.Series:
    """Return a mask of the rows that are products by a library."""
    return ~cells["device"].eq(CPU) & cells["variant"].isin(LIBRARIES)


def of_sizes(summary: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the study's square matrices that have end-to-end times."""
    return summary[(summary["series"] == SIZES) & summary["total_s"].notna()]


def is_source_naive(cells: pd.DataFrame) -> pd.Series:
    """Return a mask of the GPU's naive kernel in blocks of 32×32, as the source launches it."""
    naive = (cells["variant"] == "naive") & (cells["device"] != CPU)
    return naive & (cells["block_size"] == NAIVE_BLOCK).fillna(False)


def compared_memory(gpu_cells: pd.DataFrame) -> str:
    """Return the host memory whose end-to-end times are compared with published ones."""
    return preferred_memory("total", gpu_cells["host_memory"]) or HOST_MEMORY_ORDER[0]


def comparison_size(gpu_cells: pd.DataFrame) -> int:
    """Return the source's matrix size if it was measured, otherwise the largest measured size."""
    sizes = {int(n) for n in gpu_cells["n"]}
    return SOURCE_SIZE if SOURCE_SIZE in sizes else max(sizes)


def rates_of(ceilings: pd.DataFrame, gpu: str) -> dict[str, float]:
    """Return a GPU's ceilings by quantity, except those of copies from or to its host."""
    of_gpu = ceilings[(ceilings["gpu"] == gpu) & ceilings["host_memory"].isna()]
    return dict(of_gpu.set_index("quantity")["value"].astype(float))
