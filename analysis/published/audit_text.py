"""Audit of the text of V against its tables: the highest throughput, and the CPU columns."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from analysis.data.best import fastest
from analysis.data.frames import from_rows
from analysis.data.published import MACHINES, Statement
from analysis.published.audit import WARM_TABLE, cells_table, constants_table, on_gpu, pairs_table
from analysis.schema import bounded
from analysis.stats.rounding import half_unit

_COPIES = 3  # of A, B and C


def headline_table(published: pd.DataFrame, statements: Mapping[str, Statement]) -> pd.DataFrame:
    """Return the throughput stated in the text, and the shortest time of Table 6 at that size.

    difference_s is the table's time minus the time for the stated throughput; copies_bytes_per_s is
    the throughput of copying three matrices in that difference (infinite without a difference).
    """
    stated, link = statements["best_flop_per_s"], statements["link_bytes_per_s"]
    cells = published[(published["table"] == WARM_TABLE) & (published["n"] == stated.n)]
    if cells.empty:
        return from_rows("audit_headline", [])
    cell = fastest(cells, "time_s").iloc[0]
    flop, size = 2.0 * stated.n**3, 4 * stated.n**2
    headline = [flop / (stated.value + side * stated.rounding) for side in (0, 1, -1)]
    slack = half_unit(float(cell["time_s"]))
    time_s = [float(cell["time_s"]) + side * slack for side in (0, -1, 1)]
    difference = [time_s[0] - headline[0], time_s[1] - headline[2], time_s[2] - headline[1]]
    rates = [_COPIES * size / rest if rest > 0 else np.inf for rest in difference]
    row = {name: cell[name] for name in ("table", "implementation", "block_size")} | {
        "machine": MACHINES[str(cell["machine"])],
        "n": stated.n,
        "headline_flop_per_s": stated.value,
        **bounded("headline_s", *headline),
        **bounded("time_s", *time_s),
        "flop_per_s": flop / time_s[0],
        **bounded("difference_s", *difference),
        "copies": _COPIES,
        "copy_bytes": size,
        **bounded("copies_bytes_per_s", rates[0], rates[2], rates[1]),
        "link_bytes_per_s": link.value,
    }
    return from_rows("audit_headline", [row])


NAIVE, AS_CAPTIONED, NEITHER = "naive", "as captioned", "neither"
_ABOUT = 1.25  # tolerance of rounded numbers in the text, as a factor


def cpu_table(published: pd.DataFrame, statements: Mapping[str, Statement]) -> pd.DataFrame:
    """Return whether the CPU columns of Tables 1 and 2 are naive, or cache-optimised as captioned.

    tuned_flop_per_s is the throughput of a version faster by the stated speedup. Verdict:
    `AS_CAPTIONED` if the column reaches the stated throughput of a cache-optimised version, `NAIVE`
    if only tuned_flop_per_s does, both within a factor of 1.25. over_headline is the column's time
    over that of the stated highest throughput, on the same machine.
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
            "verdict": _verdict(rate, tuned, least, most),
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
    return from_rows("audit_cpu", rows)


def _verdict(rate: float, tuned: float, least: float, most: float) -> str:
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
