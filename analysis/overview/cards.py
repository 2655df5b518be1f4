"""Cards against each other: the fastest way on each, beside that on the first card."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd

from analysis.data.cells import of_sizes
from analysis.data.frames import stacked
from analysis.data.recordings import Source, with_gpu
from analysis.domain import NO_INTERVAL
from analysis.schema import with_bounds
from analysis.stats.estimates import FloatArray, ratio_intervals
from analysis.stats.significance import FASTER, SAME, SLOWER, THRESHOLD, UNDECIDED

_KEY = ["n", "quantity", "host_memory"]


def cards_table(sources: list[Source], summary: pd.DataFrame) -> pd.DataFrame:
    """Return the fastest way on every card at each of its orders, over that on the first card.

    Quantity "total" holds the copies, "kernel" does not; the library's kernel takes part. `first`
    is the first card of `sources` that took the same order, `ratio` the card's time over its time
    (empty for itself), with a 95 % interval of independent bootstrap draws of both medians; the
    verdict is on that interval. `summary` is `analysis.data.recordings.summary_table`.
    """
    fastest = [ways for source in with_gpu(sources) for ways in _fastest(source, summary)]
    if not fastest:
        return stacked("cards", [])
    rows = pd.concat([ways for ways, _ in fastest], ignore_index=True)
    draws = np.concatenate([drawn for _, drawn in fastest])
    place = rows.reset_index().groupby(_KEY)["index"].transform("first").to_numpy()
    rows["first"] = rows["gpu"].to_numpy()[place]
    others = place != rows.index.to_numpy()
    rows["ratio"] = (rows["time_s"] / rows["time_s"].to_numpy()[place]).where(others)
    bounds = [np.where(others, bound, np.nan) for bound in ratio_intervals(draws, draws[place])]
    rows["ratio_low"], rows["ratio_high"] = bounds
    of_others = zip(others, *bounds, strict=True)
    rows["verdict"] = [verdict(low, high) if other else None for other, low, high in of_others]
    return stacked("cards", [rows])


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


def _fastest(source: Source, summary: pd.DataFrame) -> Iterator[tuple[pd.DataFrame, FloatArray]]:
    """Yield the fastest way on a card at each order, and the bootstrap draws of their medians.

    Those of a quantity come together, from pageable memory first.
    """
    gpu = of_sizes(summary[summary["gpu"] == source.label])
    for quantity in ("total", "kernel"):
        cells = gpu[gpu[f"{quantity}_s"].notna()]
        ways = cells.loc[cells.groupby(["host_memory", "n"])[f"{quantity}_s"].idxmin()]
        if ways.empty:
            continue
        rows = ways.assign(gpu_name=source.gpu_name, quantity=quantity)
        rows[with_bounds("time_s")] = ways[with_bounds(f"{quantity}_s")]
        yield rows, source.drawn(ways, quantity)
