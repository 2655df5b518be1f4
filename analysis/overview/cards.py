"""Cards against each other: the fastest way on each, beside that on the first card."""

import math

import numpy as np
import pandas as pd

from analysis.data.recordings import Source
from analysis.domain import CPU, HOST_MEMORY_ORDER, NO_INTERVAL
from analysis.stats.estimates import ratio_intervals
from analysis.stats.significance import FASTER, SAME, SLOWER, THRESHOLD, UNDECIDED

COLUMNS = [
    *("gpu", "gpu_name", "n", "quantity", "host_memory", "variant", "block_size"),
    *("time_s", "time_low_s", "time_high_s", "first", "ratio", "ratio_low", "ratio_high"),
    "verdict",
]
_KEY = ["n", "quantity", "host_memory"]


def cards_table(sources: list[Source]) -> pd.DataFrame:
    """Return the fastest way on every card at each of its orders, over that on the first card.

    Quantity "total" holds the copies, "kernel" does not; the library's kernel takes part. `first`
    is the first card of `sources` that took the same order, `ratio` the card's time over its time
    (empty for itself), with a 95 % interval of independent bootstrap draws of both medians; the
    verdict is on that interval.
    """
    fastest = [row for source in sources if source.device for row in _fastest(source)]
    rows = pd.DataFrame([row for row, _ in fastest])
    if rows.empty:
        return pd.DataFrame(columns=COLUMNS)
    draws = np.array([drawn for _, drawn in fastest])
    place = rows.reset_index().groupby(_KEY)["index"].transform("first").to_numpy()
    rows["first"] = rows["gpu"].to_numpy()[place]
    others = place != rows.index.to_numpy()
    rows["ratio"] = (rows["time_s"] / rows["time_s"].to_numpy()[place]).where(others)
    low, high = ratio_intervals(draws, draws[place])
    rows["ratio_low"] = pd.Series(low, rows.index).where(others)
    rows["ratio_high"] = pd.Series(high, rows.index).where(others)
    bounds = zip(others, rows["ratio_low"], rows["ratio_high"], strict=True)
    rows["verdict"] = [verdict(a, b) if other else None for other, a, b in bounds]
    return rows.astype({"block_size": "Int64"})[COLUMNS]


def verdict(low: float, high: float) -> str:
    """Return what the interval of a ratio of times says; `THRESHOLD` is what would matter."""
    if math.isnan(low) or math.isnan(high):
        return NO_INTERVAL
    limit = 1 + THRESHOLD
    if high < 1 / limit:
        return FASTER
    if low > limit:
        return SLOWER
    return SAME if 1 / limit <= low and high <= limit else UNDECIDED


def _fastest(source: Source) -> list[tuple[dict[str, object], np.ndarray]]:
    """Return the fastest way on a card for each key, and the bootstrap draws of its median."""
    gpu = source.orders[source.orders["device"] != CPU]
    found = []
    for quantity in ("total", "kernel"):
        for memory in HOST_MEMORY_ORDER:
            cells = gpu[(gpu["host_memory"] == memory) & gpu[f"{quantity}_s"].notna()]
            for n, at_n in cells.groupby("n", sort=True):
                index = at_n[f"{quantity}_s"].idxmin()
                best = at_n.loc[index]
                row = {
                    "gpu": source.label,
                    "gpu_name": source.gpu_name,
                    "n": n,
                    "quantity": quantity,
                    "host_memory": memory,
                    **{column: best[column] for column in ("variant", "block_size")},
                    **{f"time{b}_s": best[f"{quantity}{b}_s"] for b in ("", "_low", "_high")},
                }
                found.append((row, source.draws[quantity][index]))
    return found
