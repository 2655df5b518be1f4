"""Audit of the published numbers: whether Tables 1–6 and the text of V are consistent.

The published times (`analysis.data.published.read`) are exact to half a unit of their last printed
digit (`rounding_s`). Bounds are the worst cases of this rounding and of the interval of the
start-up constant, the start of a program that the times of Tables 1–5 include.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import least_squares
from scipy.special import stdtrit

from analysis.data.best import fastest
from analysis.data.frames import from_rows, stacked
from analysis.data.published import MACHINES, Statement
from analysis.schema import bounded, interval_columns, with_bounds
from analysis.stats.estimates import CONFIDENCE, FloatArray, IntArray
from analysis.stats.rounding import half_unit

WARM_TABLE = 6  # measured in a running process; Tables 1–5 include its start-up
_KERNEL = ["implementation", "block_size"]
_FIRST = ("table", "machine", *_KERNEL, "n", "time_s", "above_constant_s", "rounding_s")
_NEAR = 0.1  # largest share of the constant by which a "near" time differs from it
_COPIES = 3  # copies of A, B and C in one run
NAIVE, AS_CAPTIONED, NEITHER = "naive", "as captioned", "neither"
_Row = dict[str, Any]
_ABOUT = 1.25  # tolerance of rounded numbers in the text, as a factor


@dataclass(frozen=True)
class Constant:
    """A start-up constant in seconds, with its interval (NaN: none)."""

    value: float
    low: float
    high: float
    log_rms: float


def fit_constant(kernel: IntArray, n: FloatArray, time_s: FloatArray) -> Constant:
    """Fit time = constant + a·n³ with one a per kernel, and return the constant.

    `kernel` numbers the kernels from 0; all arguments have shape (cells,). Residuals are in log
    time, because printed times have two or three digits. Their loss is soft-L1 (Charbonnier et al.,
    ICIP 1994) with 1.4826 times their median size as scale. A kernel whose cost does not grow with
    n³ therefore has little influence. The interval is a jackknife over kernels (Tukey 1958; Efron
    and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 11) with Student's t, NaN below
    three kernels.
    """
    value, log_rms = _robust_constant(kernel, n, time_s)
    count = int(kernel.max()) + 1
    if count < 3:
        return Constant(value, np.nan, np.nan, log_rms)
    left_out = []
    for one in range(count):
        kept = kernel != one
        numbers = np.unique(kernel[kept], return_inverse=True)[1]
        left_out.append(np.log(_robust_constant(numbers, n[kept], time_s[kept])[0]))
    spread = np.sqrt((count - 1) * np.var(left_out))
    factor = float(np.exp(stdtrit(count - 1, (1 + CONFIDENCE) / 2) * spread))
    return Constant(value, value / factor, value * factor, log_rms)


def _robust_constant(kernel: IntArray, n: FloatArray, time_s: FloatArray) -> tuple[float, float]:
    """Return the constant in seconds, and the root mean square of log(fit/time)."""
    largest = [np.max((time_s / n**3)[kernel == k]) for k in range(int(kernel.max()) + 1)]

    def residual(logs: FloatArray) -> FloatArray:
        fitted = np.exp(logs[0]) + np.exp(logs[1:])[kernel] * n**3
        return np.asarray(np.log(fitted / time_s))

    start = np.log([0.9 * time_s.min(), *largest])
    plain = least_squares(residual, start).x
    scale = max(1.4826 * float(np.median(np.abs(residual(plain)))), 1e-6)
    best = least_squares(residual, plain, loss="soft_l1", f_scale=scale).x
    return float(np.exp(best[0])), float(np.sqrt(np.mean(residual(best) ** 2)))


def constants_table(published: pd.DataFrame) -> pd.DataFrame:
    """Return one row per start-up constant: of Tables 1–5 on each machine, and of Table 6.

    A cell printed by several tables counts once. Table 6 repeats the naive column of Table 5, which
    is excluded from its constant. least_n_near counts the kernels at the smallest size whose time
    differs from the constant by at most a share `_NEAR`.
    """
    rows = []
    for machine, name in MACHINES.items():
        printed = published[(published["machine"] == machine) & on_gpu(published)]
        warm = printed["table"] == WARM_TABLE
        for cells in (printed[~warm], printed[warm & (printed["implementation"] != "gpu_naive")]):
            if cells["n"].nunique() < 2:
                continue
            distinct = cells.drop_duplicates([*_KERNEL, "n", "time_s"])
            kernels = distinct.groupby(_KERNEL, dropna=False).ngroup().to_numpy()
            n, time_s = (distinct[name].to_numpy(dtype=float) for name in ("n", "time_s"))
            fitted = fit_constant(kernels, n, time_s)
            least = distinct[distinct["n"] == distinct["n"].min()]
            near = (least["time_s"] - fitted.value).abs() <= _NEAR * fitted.value
            rows.append(
                {
                    "machine": name,
                    "first_table": int(cells["table"].min()),
                    "last_table": int(cells["table"].max()),
                    **bounded("constant_s", fitted.value, fitted.low, fitted.high),
                    "kernels": int(kernels.max()) + 1,
                    "cells": len(distinct),
                    "shortest_s": float(time_s.min()),
                    "least_n": int(distinct["n"].min()),
                    "least_n_kernels": len(least),
                    "least_n_near": int(near.sum()),
                    "log_rms": fitted.log_rms,
                }
            )
    return from_rows("audit_constants", rows)


def cells_table(published: pd.DataFrame, constants: pd.DataFrame) -> pd.DataFrame:
    """Return one row per printed cell: its throughput, and its speedup with and without constant.

    flop_per_s is 2n³/time_s with the bounds of the rounding; rate_agrees: the rounded printed
    throughput is within them. speedup is the naive time of the same table over the cell's;
    speedup_without_constant is the ratio of both times minus the constant that they include (none
    for Table 6's own kernels). m0_limit is M0's bound on the speedup of a buffered kernel for any
    ρ, 2/(1 + 1/n).
    """
    cells = published.assign(
        machine=published["machine"].map(MACHINES),
        rounding_s=published["time_s"].map(half_unit),
    )
    names = {"time_s": "naive_time_s", "rounding_s": "naive_rounding_s"}
    same = ["table", "machine", "n"]
    naive = cells["implementation"] == "gpu_naive"
    cells = cells.merge(
        cells.loc[naive, [*same, *names]].rename(columns=names),
        how="left",
        on=same,
        validate="m:1",
    )
    on_gpu_cells, warm = on_gpu(cells), cells["table"] == WARM_TABLE
    naive = cells["implementation"] == "gpu_naive"
    cold = on_gpu_cells & (naive | ~warm)
    others = on_gpu_cells & ~naive
    start_up = constants[constants["first_table"] != WARM_TABLE].drop_duplicates("machine")
    start_up = start_up.set_index("machine")[with_bounds("constant_s")].astype(float)
    start = cells[["machine"]].join(start_up, on="machine")
    without = _speedups_without(cells, start, cold)
    cells = cells.assign(**_rates(cells), **start[list(start_up)].where(cold))
    cells["above_constant_s"] = cells["time_s"] - cells["constant_s"]
    cells["naive_time_s"] = cells["naive_time_s"].where(others)
    cells["speedup"] = cells["naive_time_s"] / cells["time_s"]
    cells[list(without)] = without.where(others & start["constant_s"].notna())
    buffered = cells["implementation"].str.startswith("gpu_buffered")
    cells["m0_limit"] = (2 / (1 + 1 / cells["n"])).where(buffered)
    return stacked("audit_cells", [cells])


def _rates(cells: pd.DataFrame) -> dict[str, object]:
    """Return each cell's throughput with bounds, and whether the printed one agrees with it."""
    flop, time_s, slack_s = 2.0 * cells["n"] ** 3, cells["time_s"], cells["rounding_s"]
    low, high = flop / (time_s + slack_s), flop / (time_s - slack_s)
    printed = cells["gflops_printed"].map(float, na_action="ignore") * 1e9
    slack = cells["gflops_printed"].map(half_unit, na_action="ignore") * 1e9
    agrees = (low <= printed + slack) & (high >= printed - slack)
    return {
        **bounded("flop_per_s", flop / time_s, low, high),
        "printed_flop_per_s": printed,
        "rate_agrees": agrees.astype("boolean").mask(printed.isna()),
    }


def _speedups_without(cells: pd.DataFrame, start: pd.DataFrame, cold: pd.Series) -> pd.DataFrame:
    """Return speedups of times without the constant, with the bounds of rounding and constant.

    The speedup is infinite for a time that is not above the constant.
    """

    def speedup(up: int, down: int, constant: pd.Series) -> pd.Series:
        above = cells["naive_time_s"] + up * cells["naive_rounding_s"] - constant
        below = cells["time_s"] + down * cells["rounding_s"] - constant.where(cold, 0.0)
        return (above.clip(lower=0) / below).where(below > 0, np.inf)

    value = start["constant_s"]
    starts = [start[name].fillna(value) for name in interval_columns("constant_s")]
    corners = [speedup(*corner) for corner in product((-1, 1), (-1, 1), starts)]
    ends = pd.concat(corners, axis=1)
    columns = (speedup(0, 0, value), ends.min(axis=1), ends.max(axis=1))
    return pd.DataFrame(bounded("speedup_without_constant", *columns))


def pairs_table(cells: pd.DataFrame) -> pd.DataFrame:
    """Return pairs of block sizes of a kernel at one n, from `cells_table`.

    The smaller block should not be faster. `differs`: it is faster by the printed digits.
    `is_empty`: its time is indistinguishable from the start-up constant.
    """
    rows = []
    swept = cells[cells["block_size"].notna()]
    for _, alike in swept.groupby(["table", "machine", "implementation", "n"]):
        for first, second in combinations(alike.sort_values("block_size").to_dict("records"), 2):
            most = np.fmax(first["constant_s"], first["constant_high_s"])  # a bound may be missing
            row: dict[str, object] = {name: first[name] for name in _FIRST}
            row |= {f"other_{name}": second[name] for name in ("block_size", "time_s")}
            row["differs"] = bool(first["time_s"] < second["time_s"])
            row["is_empty"] = bool(first["time_s"] - first["rounding_s"] <= most)
            rows.append(row)
    return from_rows("audit_pairs", rows)


def on_gpu(published: pd.DataFrame) -> pd.Series:
    """Return a mask of the published cells that were measured on a GPU."""
    return published["implementation"].str.startswith("gpu_")


def headline_table(published: pd.DataFrame, statements: Mapping[str, Statement]) -> pd.DataFrame:
    """Return one row: the throughput stated in the text, and the shortest time in Table 6.

    Both are for the same size. difference_s is the table's time minus the time for the stated
    throughput; copies_bytes_per_s is the bandwidth at which three matrices are copied in this
    difference (infinite without a difference).
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


def cpu_table(published: pd.DataFrame, statements: Mapping[str, Statement]) -> pd.DataFrame:
    """Return whether the CPU columns of Tables 1 and 2 are naive, or cache-optimised as captioned.

    tuned_flop_per_s is the throughput of a version that is faster by the stated speedup. Verdict:
    `AS_CAPTIONED` if the column reaches the stated throughput of a cache-optimised version, `NAIVE`
    if only tuned_flop_per_s does, both within a factor of 1.25. over_headline is the column's time
    over the time of the stated highest throughput, on the same machine.
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
            row["over_headline"] = time_s / float(same["headline_s"].iloc[0])
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
