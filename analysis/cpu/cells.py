"""Which CPU cells others are compared with: the baselines of gains, and steps of tuning.

A CPU cell is of one thread or of all that the process may use; a variant that runs on one thread
only has no cell of all.
"""

import pandas as pd

from analysis.domain import CPU
from cpu_reference.catalog import VARIANTS

NAIVE = "naive"
# How many threads a cell is of.
ONE, ALL = "one", "all"
# What the source did to its CPU program: its own variants but the naive one.
SOURCE_OPTIMISED = [name for name, v in VARIANTS.items() if v.origin[:2] == "V," and name != NAIVE]
LIBRARIES = [name for name, v in VARIANTS.items() if not v.compiled]
OWN = [name for name, v in VARIANTS.items() if v.compiled]

# What speedups over the CPU are over, from the plainest to what is hardest to beat.
BASELINES = {
    "naive": "the naive loop, one thread",
    "own": "the fastest of this study's C, one thread",
    "blas": "the fastest BLAS, one thread",
    "blas_all": "the fastest BLAS, all threads",
    "best": "the fastest of all that was measured",
}


def with_threads(cells: pd.DataFrame, threads: str) -> pd.Series:
    """Tell which cells are of a CPU on one thread (`ONE`), or on all (`ALL`)."""
    count = cells["threads"]
    chosen = (count == 1) if threads == ONE else (count > 1)
    return (cells["device"] == CPU) & chosen.fillna(False).astype(bool)


def fastest(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the cell with the least total time at each order."""
    return cells.loc[cells.groupby("n")["total_s"].idxmin()]


def baselines(cells: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return for each of `BASELINES` its cell at each order; no rows where it was not measured."""
    one, all_threads = (with_threads(cells, threads) for threads in (ONE, ALL))
    variant = cells["variant"]
    chosen = {
        "naive": one & (variant == NAIVE),
        "own": one & variant.isin(OWN),
        "blas": one & variant.isin(LIBRARIES),
        "blas_all": all_threads & variant.isin(LIBRARIES),
        "best": one | all_threads,
    }
    return {name: fastest(cells[chosen[name]]) for name in BASELINES}


def stages(cells: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the fastest cell at each order after each step of tuning a CPU program.

    naive; source: after what the source did, on one thread still; one_thread: the fastest of all on
    one thread; all_threads: the fastest on all.
    """
    one = with_threads(cells, ONE)
    chosen = {
        "naive": one & (cells["variant"] == NAIVE),
        "source": one & cells["variant"].isin(SOURCE_OPTIMISED),
        "one_thread": one,
        "all_threads": with_threads(cells, ALL),
    }
    return {name: fastest(cells[rows]) for name, rows in chosen.items()}
