"""How far hardware explains that the times of two recordings differ.

An end-to-end run depends on its host through launches and copies, a product on the CPU through
cores and memory. A kernel depends on the latency of device memory if its matrices exceed the L2.
Where these ceilings differ, a longer time is no evidence about the code.
"""

from collections.abc import Sequence

import pandas as pd
from scipy import stats

from analysis.domain import CPU
from measurement.recording.recording import Recording

# Ceilings of the host: an empty run, the largest copies, cores and memory of the CPU.
_EMPTY_RUN = "empty_total_s"
_COPIES = ("h2d_bytes_per_s", "d2h_bytes_per_s")
_CORES = ("fp32_flop_per_s", "memory_bytes_per_s")
_LATENCY = "dram_latency_s"
_KEY = ["quantity", "host_memory", "threads"]


def host_factors(a: Sequence[Recording], b: Sequence[Recording]) -> pd.DataFrame:
    """Return one row per ceiling measured on all hosts: the factor between B and A.

    Columns: quantity, host_memory, threads, factor. factor is the time of B's hosts over the time
    of A's hosts, from medians over the rounds and geometric means over the sessions. Devices are
    matched by name, because the ceilings of a GPU depend on its link.
    """
    both = _means(a).merge(_means(b), on=["device", *_KEY], suffixes=("_a", "_b"))
    slower = both["value_b"] / both["value_a"]
    per_s = both["quantity"].str.endswith("_per_s")
    factors = both.assign(factor=slower.mask(per_s, 1 / slower))
    return factors[[*_KEY, "value_a", "factor"]]


def _means(sessions: Sequence[Recording]) -> pd.DataFrame:
    key = ["device", *_KEY]
    rows = pd.concat([_medians(each.ceilings) for each in sessions])
    groups = rows.groupby(key, dropna=False, sort=False)["value"]
    means = groups.agg(value=stats.gmean, sessions="size").reset_index()
    return means[means.pop("sessions") == len(sessions)]


def _medians(ceilings: pd.DataFrame) -> pd.DataFrame:
    if ceilings.empty:
        return pd.DataFrame(columns=["device", *_KEY, "value"])
    on_cpu = (ceilings["device"] == CPU).fillna(False)
    quantity = ceilings["quantity"]
    of_cpu, of_gpu = quantity.isin(_CORES), quantity.isin([_EMPTY_RUN, _LATENCY, *_COPIES])
    used = ceilings[(on_cpu & of_cpu) | (~on_cpu & of_gpu)]
    key = ["device", *_KEY]
    sizes = used["size_bytes"].fillna(0)
    largest = sizes == sizes.groupby([used[name] for name in key], dropna=False).transform("max")
    return used[largest].groupby(key, dropna=False, as_index=False, sort=False)["value"].median()


def explained(factors: pd.DataFrame, rows: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """Return the least and the greatest ratio B/A of each row that the ceilings explain.

    A slower link changes only the part of a run outside its kernel, and a longer empty run changes
    at most its own time. How much a time depends on a ceiling is unknown, so the range of ratios
    always contains 1. `rows` has on_host, host_memory (of end-to-end runs), threads (of CPU
    products), exceeds_l2, median_a_s and kernel_a_s (NaN if it was not measured).
    """
    low, high = (pd.Series(1.0, rows.index) for _ in range(2))
    quantity, whole = factors["quantity"], pd.Series(1.0, rows.index)
    outside = (1 - rows["kernel_a_s"] / rows["median_a_s"]).clip(0, 1).fillna(1.0)
    empty_s = factors.loc[quantity == _EMPTY_RUN, "value_a"].max()
    of_launch = (empty_s / rows["median_a_s"]).clip(upper=1).fillna(1.0)
    effects = [
        (rows["exceeds_l2"], quantity == _LATENCY, whole),
        (rows["on_host"] & rows["host_memory"].notna(), quantity == _EMPTY_RUN, of_launch),
    ]
    for column, share in (("host_memory", outside), ("threads", whole)):
        for value in rows[column].dropna().unique():
            affected = rows["on_host"] & (rows[column] == value).fillna(False)
            effects.append((affected, (factors[column] == value).fillna(False), share))
    for affected, affects, share in effects:
        measured = factors.loc[affects, "factor"]
        low[affected] *= 1 + share[affected] * (min([1.0, *measured]) - 1)
        high[affected] *= 1 + share[affected] * (max([1.0, *measured]) - 1)
    return low, high


def note(factors: pd.DataFrame) -> str | None:
    """Return a line on the times of B's host relative to A's; None if nothing was measured."""
    names = {_EMPTY_RUN: "empty run", "h2d": "copies to the GPU", "d2h": "copies to the host"}
    names |= {_LATENCY: "latency of device memory"}
    names |= {"fp32": "FMAs of the CPU", "memory": "memory of the CPU"}
    texts = [
        f"{names.get(quantity) or names[quantity.split('_')[0]]}"
        f"{'' if pd.isna(memory) else f' ({memory})'}"
        f"{'' if pd.isna(threads) else f' ({threads} threads)'} {factor:.3f}"
        for quantity, memory, threads, _, factor in factors.itertuples(index=False)
    ]
    return f"times of B's hardware relative to A's: {', '.join(texts)}" if texts else None
