"""How much slower one recording's host is than another's, by what was measured of it alone.

A whole run depends on the host by its launches and its copies, a CPU's product by its cores and
its memory. Where these ceilings differ, a run that takes longer says nothing of the GPU.
"""

import pandas as pd

from analysis.domain import CPU
from measurement.recording.recording import Recording

# Ceilings that are the host's, by what they bear on; the rates of copies are those of the largest.
_PASS = "empty_total_s"
_COPIES = ("h2d_bytes_per_s", "d2h_bytes_per_s")
_CORES = ("fp32_flop_per_s", "memory_bytes_per_s")
_KEY = ["quantity", "host_memory", "threads"]


def host_factors(a: Recording, b: Recording) -> pd.DataFrame:
    """Return what both measured of their hosts: quantity, host_memory, threads, factor.

    factor is how many times as long B's host takes, of medians over the rounds. The devices are
    matched by their names: a GPU's ceilings are those of its link.
    """
    both = _medians(a.ceilings).merge(_medians(b.ceilings), on=["device", *_KEY])
    slower = both["value_y"] / both["value_x"]
    rates = both["quantity"].str.endswith("_per_s")
    factors = both.assign(factor=slower.mask(rates, 1 / slower))
    return factors[[*_KEY, "factor"]]


def _medians(ceilings: pd.DataFrame) -> pd.DataFrame:
    if ceilings.empty:
        return pd.DataFrame(columns=["device", *_KEY, "value"])
    on_cpu = (ceilings["device"] == CPU).fillna(False)
    quantity = ceilings["quantity"]
    own = ceilings[(on_cpu & quantity.isin(_CORES)) | (~on_cpu & quantity.isin([_PASS, *_COPIES]))]
    key = ["device", *_KEY]
    sizes = own["size_bytes"].fillna(0)
    largest = sizes == sizes.groupby([own[name] for name in key], dropna=False).transform("max")
    return own[largest].groupby(key, dropna=False, as_index=False, sort=False)["value"].median()


def bearing(factors: pd.DataFrame, rows: pd.DataFrame) -> pd.Series:
    """Return of each row the factor furthest from 1 that bears on it, NaN where none is known.

    `rows` have host_memory (of runs) and threads (of a CPU's products).
    """
    found = pd.Series(float("nan"), rows.index)
    for memory in rows["host_memory"].dropna().unique():
        bears = (factors["quantity"] == _PASS) | (factors["host_memory"] == memory).fillna(False)
        found[rows["host_memory"] == memory] = _furthest(factors.loc[bears, "factor"])
    for threads in rows["threads"].dropna().unique():
        bears = (factors["threads"] == threads).fillna(False)
        found[rows["threads"] == threads] = _furthest(factors.loc[bears, "factor"])
    return found


def _furthest(factors: pd.Series) -> float:
    """Return the factor that is the furthest from 1, NaN if there is none."""
    if factors.empty:
        return float("nan")
    return float(factors[factors.where(factors >= 1, 1 / factors).idxmax()])


def note(factors: pd.DataFrame) -> str | None:
    """Return a line on the times of B's host relative to A's; None if nothing was measured."""
    names = {_PASS: "empty run", "h2d": "copies to the GPU", "d2h": "copies to the host"}
    names |= {"fp32": "FMAs of the CPU", "memory": "memory of the CPU"}
    texts = [
        f"{names.get(quantity) or names[quantity.split('_')[0]]}"
        f"{'' if pd.isna(memory) else f' ({memory})'}"
        f"{'' if pd.isna(threads) else f' ({threads} threads)'} {factor:.3f}"
        for quantity, memory, threads, factor in factors.itertuples(index=False)
    ]
    return f"times of B's host relative to A's: {', '.join(texts)}" if texts else None
