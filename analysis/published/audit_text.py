"""The audit of what the text of V says beside its tables: its best rate, and what its CPU is."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from analysis.data.published import MACHINES
from analysis.data.published_claims import Statement
from analysis.published.audit import WARM_TABLE, cells_table, constants_table, on_gpu, pairs_table
from analysis.stats.rounding import half_unit

HEADLINE_COLUMNS = [
    *("machine", "n", "headline_flop_per_s", "headline_s", "headline_low_s", "headline_high_s"),
    *("table", "implementation", "block_size", "time_s", "time_low_s", "time_high_s"),
    *("flop_per_s", "difference_s", "difference_low_s", "difference_high_s", "copies"),
    *("copy_bytes", "copies_bytes_per_s", "copies_bytes_per_low_s", "copies_bytes_per_high_s"),
    "link_bytes_per_s",
]
_COPIES = 3  # of A, B and C


def headline_table(published: pd.DataFrame, statements: Mapping[str, Statement]) -> pd.DataFrame:
    """Return the rate that the text states beside the shortest time of Table 6 at that order.

    difference_s is what the table's time has more than the stated rate needs; copies_bytes_per_s
    the rate at which three matrices would cross the link in it (infinite where it is none).
    """
    said, link = statements["best_flop_per_s"], statements["link_bytes_per_s"]
    cells = published[(published["table"] == WARM_TABLE) & (published["n"] == said.n)]
    if cells.empty:
        return pd.DataFrame(columns=HEADLINE_COLUMNS)
    cell = cells.loc[cells["time_s"].idxmin()]
    flop, size = 2.0 * said.n**3, 4 * said.n**2
    headline = [flop / (said.value + side * said.rounding) for side in (0, 1, -1)]
    slack = half_unit(float(cell["time_s"]))
    time_s = [float(cell["time_s"]) + side * slack for side in (0, -1, 1)]
    difference = [time_s[0] - headline[0], time_s[1] - headline[2], time_s[2] - headline[1]]
    rates = [_COPIES * size / rest if rest > 0 else np.inf for rest in difference]
    row = {name: cell[name] for name in ("table", "implementation", "block_size")} | {
        "machine": MACHINES[str(cell["machine"])],
        "n": said.n,
        "headline_flop_per_s": said.value,
        **_bounded("headline", headline),
        **_bounded("time", time_s),
        "flop_per_s": flop / time_s[0],
        **_bounded("difference", difference),
        "copies": _COPIES,
        "copy_bytes": size,
        **_bounded("copies_bytes_per", [rates[0], rates[2], rates[1]]),
        "link_bytes_per_s": link.value,
    }
    return pd.DataFrame([row], columns=HEADLINE_COLUMNS).astype({"block_size": "Int64"})


def _bounded(name: str, values: list[float]) -> dict[str, float]:
    """Return value, low and high as columns of seconds, or of something per second."""
    return dict(zip((f"{name}_s", f"{name}_low_s", f"{name}_high_s"), values, strict=True))


CPU_COLUMNS = [
    *("table", "machine", "n", "before_n", "cpu_time_s", "cpu_flop_per_s", "growth", "n3_growth"),
    *("tuned_speedup", "tuned_flop_per_s", "tuned_least_flop_per_s", "tuned_most_flop_per_s"),
    *("headline_s", "over_headline", "stated_speedup", "verdict"),
]
NAIVE, AS_CAPTIONED, NEITHER = "naive", "as captioned", "neither"
_ABOUT = 1.25  # a factor that a rounded figure of a text leaves on either side


def cpu_table(published: pd.DataFrame, statements: Mapping[str, Statement]) -> pd.DataFrame:
    """Return what the CPU columns of Tables 1 and 2 are: naive, or cache-optimised as captioned.

    tuned_flop_per_s is what a version faster by the speedup that the text states would reach. Verdict:
    `AS_CAPTIONED` where the column reaches the rate that the text states of a cache-optimised
    version, `NAIVE` where it does not, but tuned_flop_per_s does; both within a factor of 1.25.
    over_headline is the column's time over that of the stated best rate, on the same machine.
    """
    least, most = (statements[f"tuned_cpu_{end}_flop_per_s"].value for end in ("least", "most"))
    tuned = statements["tuned_cpu_speedup"].value
    headline = headline_table(published, statements)
    rows = []
    for table, cells in published[~on_gpu(published)].groupby("table"):
        ordered = cells.sort_values("n")
        last, before = ordered.iloc[-1], ordered.iloc[-2] if len(ordered) > 1 else None
        n, time_s = int(last["n"]), float(last["time_s"])
        rate = 2.0 * n**3 / time_s
        row = {
            "table": table,
            "machine": MACHINES[str(last["machine"])],
            "n": n,
            "cpu_time_s": time_s,
            "cpu_flop_per_s": rate,
            "tuned_speedup": tuned,
            "tuned_flop_per_s": tuned * rate,
            "tuned_least_flop_per_s": least,
            "tuned_most_flop_per_s": most,
            "verdict": _what_it_is(rate, tuned, least, most),
        }
        if before is not None:
            row["before_n"] = int(before["n"])
            row["growth"] = time_s / float(before["time_s"])
            row["n3_growth"] = (n / int(before["n"])) ** 3
        same = headline[(headline["machine"] == row["machine"]) & (headline["n"] == n)]
        if not same.empty:
            row["headline_s"] = float(same["headline_s"].iloc[0])
            row["over_headline"] = time_s / row["headline_s"]
            row["stated_speedup"] = statements["speedup_over_cpu"].value
        rows.append(row)
    return pd.DataFrame(rows, columns=CPU_COLUMNS).astype({"before_n": "Int64"})


def _what_it_is(rate: float, tuned: float, least: float, most: float) -> str:
    if rate * _ABOUT >= least:
        return AS_CAPTIONED
    return NAIVE if least <= tuned * rate * _ABOUT and tuned * rate <= most * _ABOUT else NEITHER


def audit_tables(
    published: pd.DataFrame, statements: Mapping[str, Statement]
) -> dict[str, pd.DataFrame]:
    """Return the tables of the audit by name."""
    constants = constants_table(published)
    cells = cells_table(published, constants)
    return {
        "audit_cells": cells,
        "audit_constants": constants,
        "audit_pairs": pairs_table(cells),
        "audit_headline": headline_table(published, statements),
        "audit_cpu": cpu_table(published, statements),
    }
