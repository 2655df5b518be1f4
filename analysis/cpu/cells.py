"""Selections of CPU cells: the baselines of speedups, and the stages of tuning.

A CPU cell is measured on one thread or on several.
"""

import pandas as pd

from analysis.data import best
from analysis.domain import CPU
from cpu_reference.catalog import VARIANTS
from kernels.catalog.baselines import BEST, OWN_ALL, SPEEDUP_BASELINES

NAIVE = "naive"
ONE, SEVERAL = "one", "several"  # whether a cell has one thread or several
# The source's optimised CPU programs: its variants except the naive one.
SOURCE_OPTIMISED = [name for name, v in VARIANTS.items() if v.origin[:2] == "V," and name != NAIVE]
LIBRARIES = [name for name, v in VARIANTS.items() if not v.compiled]
OWN = [name for name, v in VARIANTS.items() if v.compiled]


def with_threads(cells: pd.DataFrame, threads: str) -> pd.Series:
    """Return a mask of the CPU cells that have one thread (`ONE`) or several threads."""
    count = cells["threads"]
    chosen = (count == 1) if threads == ONE else (count > 1)
    return (cells["device"] == CPU) & chosen.fillna(False).astype(bool)


def fastest(cells: pd.DataFrame) -> pd.DataFrame:
    """Return for each size the cell with the least end-to-end time."""
    return best.fastest(cells, "total_s", ["n"])


def candidates(cells: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return all cells from which each of `CPU_BASELINES` is chosen, by baseline."""
    one, several = (with_threads(cells, threads) for threads in (ONE, SEVERAL))
    variant = cells["variant"]
    chosen = {
        "naive": one & (variant == NAIVE),
        "own": one & variant.isin(OWN),
        OWN_ALL: several & variant.isin(OWN),
        "blas": one & variant.isin(LIBRARIES),
        "blas_all": several & variant.isin(LIBRARIES),
        BEST: one | several,
    }
    return {name: cells[rows] for name, rows in chosen.items()}


def baselines(cells: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return for each of `SPEEDUP_BASELINES` its cell at each measured size."""
    chosen = candidates(cells)
    return {name: fastest(chosen[name]) for name in SPEEDUP_BASELINES}


def stages(cells: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return for each stage of tuning a CPU program its fastest cell at each size.

    naive: the naive loop on one thread; source: the source's optimised programs on one thread;
    one_thread: the fastest on one thread; all_threads: the fastest on several threads.
    """
    one = with_threads(cells, ONE)
    chosen = {
        "naive": one & (cells["variant"] == NAIVE),
        "source": one & cells["variant"].isin(SOURCE_OPTIMISED),
        "one_thread": one,
        "all_threads": with_threads(cells, SEVERAL),
    }
    return {name: fastest(cells[rows]) for name, rows in chosen.items()}
