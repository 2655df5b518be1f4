"""Times of one recording's host relative to another's, from ceilings measured on the hosts.

An end-to-end run depends on the host through launches and copies, a CPU product through cores and
memory. Where these ceilings differ, a longer run is no evidence about the GPU.
"""

import pandas as pd

from analysis.domain import CPU
from measurement.recording.recording import Recording

# Ceilings of the host: an empty run, the largest copies, cores and memory of the CPU.
_EMPTY_RUN = "empty_total_s"
_COPIES = ("h2d_bytes_per_s", "d2h_bytes_per_s")
_CORES = ("fp32_flop_per_s", "memory_bytes_per_s")
_KEY = ["quantity", "host_memory", "threads"]


def host_factors(a: Recording, b: Recording) -> pd.DataFrame:
    """Return the ceilings measured on both hosts: quantity, host_memory, threads, factor.

    factor is the time of B's host over that of A's, from medians over the rounds. Devices are
    matched by name, because the ceilings of a GPU are those of its link.
    """
    both = _medians(a.ceilings).merge(_medians(b.ceilings), on=["device", *_KEY])
    slower = both["value_y"] / both["value_x"]
    per_s = both["quantity"].str.endswith("_per_s")
    factors = both.assign(factor=slower.mask(per_s, 1 / slower))
    return factors[[*_KEY, "factor"]]


def _medians(ceilings: pd.DataFrame) -> pd.DataFrame:
    if ceilings.empty:
        return pd.DataFrame(columns=["device", *_KEY, "value"])
    on_cpu = (ceilings["device"] == CPU).fillna(False)
    quantity = ceilings["quantity"]
    own = ceilings[
        (on_cpu & quantity.isin(_CORES)) | (~on_cpu & quantity.isin([_EMPTY_RUN, *_COPIES]))
    ]
    key = ["device", *_KEY]
    sizes = own["size_bytes"].fillna(0)
    largest = sizes == sizes.groupby([own[name] for name in key], dropna=False).transform("max")
    return own[largest].groupby(key, dropna=False, as_index=False, sort=False)["value"].median()


def bearing(factors: pd.DataFrame, rows: pd.DataFrame) -> pd.Series:
    """Return for each row the factor furthest from 1 among those that affect it, or NaN.

    `rows` has host_memory (of end-to-end runs) and threads (of CPU products).
    """
    found = pd.Series(float("nan"), rows.index)
    for column in ("host_memory", "threads"):
        for value in rows[column].dropna().unique():
            affects = (factors[column] == value).fillna(False)
            if column == "host_memory":
                affects |= factors["quantity"] == _EMPTY_RUN
            own = factors.loc[affects, "factor"]
            if len(own):
                found[rows[column] == value] = own[own.where(own >= 1, 1 / own).idxmax()]
    return found


def note(factors: pd.DataFrame) -> str | None:
    """Return a line on the times of B's host relative to A's; None if nothing was measured."""
    names = {_EMPTY_RUN: "empty run", "h2d": "copies to the GPU", "d2h": "copies to the host"}
    names |= {"fp32": "FMAs of the CPU", "memory": "memory of the CPU"}
    texts = [
        f"{names.get(quantity) or names[quantity.split('_')[0]]}"
        f"{'' if pd.isna(memory) else f' ({memory})'}"
        f"{'' if pd.isna(threads) else f' ({threads} threads)'} {factor:.3f}"
        for quantity, memory, threads, factor in factors.itertuples(index=False)
    ]
    return f"times of B's host relative to A's: {', '.join(texts)}" if texts else None
