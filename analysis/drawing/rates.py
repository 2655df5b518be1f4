"""Throughput of cells for several figures."""

import pandas as pd

RATE = ("rate", "rate_low", "rate_high")


def with_rates(cells: pd.DataFrame, quantity: str) -> pd.DataFrame:
    """Return `cells` with rate, rate_low, rate_high in GFLOP/s from the times of `quantity`.

    `quantity` is "total" or "kernel". Rows without this time are dropped. The upper bound of the
    time gives the lower bound of the throughput.
    """
    cells = cells[cells[f"{quantity}_s"].notna()]
    work = 2e-9 * cells[["batch", "m", "n", "k"]].astype(float).prod(axis=1)
    return cells.assign(
        rate=work / cells[f"{quantity}_s"],
        rate_low=work / cells[f"{quantity}_high_s"],
        rate_high=work / cells[f"{quantity}_low_s"],
    )


def fastest(cells: pd.DataFrame, *by: str) -> pd.DataFrame:
    """Return the row with the highest throughput for each group of `by`."""
    ordered = cells.sort_values("rate", ascending=False, kind="stable")
    return ordered.drop_duplicates(list(by)).sort_index()
