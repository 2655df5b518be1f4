"""The audit of the published numbers: what Tables 1–6 of V say when they are held side by side.

The published times are those of `analysis.data.published.read`, known to half a unit of their last
printed digit (`rounding_s`). Every bound here is the worst case of that and, where the start-up
constant takes part, of its interval.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.optimize import least_squares
from scipy.stats import t as student_t

from analysis.data.published import MACHINES
from analysis.stats.estimates import CONFIDENCE, FloatArray
from analysis.stats.rounding import half_unit

COLD_TABLES = (1, 2, 3, 4, 5)
WARM_TABLE = 6
KERNEL = ["implementation", "block_size"]
CELLS_COLUMNS = [
    *("table", "machine", "implementation", "n", "block_size", "time_s", "rounding_s"),
    *("printed_flop_per_s", "flop_per_s", "flop_per_low_s", "flop_per_high_s", "rate_agrees"),
    *("constant_s", "constant_low_s", "constant_high_s", "above_constant_s"),
    *("naive_time_s", "naive_constant_s", "speedup"),
    *(
        "speedup_without_constant",
        "speedup_without_constant_low",
        "speedup_without_constant_high",
        "m0_limit",
    ),
]
CONSTANTS_COLUMNS = [
    *("machine", "first_table", "last_table", "constant_s", "constant_low_s", "constant_high_s"),
    *("kernels", "cells", "shortest_s", "least_n", "least_n_kernels", "least_n_near", "log_rms"),
]
NEAR = 0.1  # a share of the constant by which a time may be off and still be near it


@dataclass(frozen=True)
class Constant:
    """A start-up constant with its interval, in seconds; NaN where there is none."""

    value: float
    low: float
    high: float
    log_rms: float


def fit_constant(kernel: npt.NDArray[np.intp], n: FloatArray, time_s: FloatArray) -> Constant:
    """Fit time = constant + a·n³ to cells, one a for each kernel, and return the constant.

    `kernel` numbers the kernels from 0; all have the shape (cells,). Residuals are in log time,
    as times printed with two or three digits are known to a share of themselves; they count by
    the soft-L1 loss (Charbonnier et al., ICIP 1994), with 1.4826 times their median size as its
    scale, so that a kernel whose cost does not grow with n³ does not pull the constant. The
    interval is a jackknife over kernels (Tukey 1958; Efron and Tibshirani, An Introduction to the
    Bootstrap, 1993, chapter 11) with Student's t, NaN below three kernels.
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
    factor = float(np.exp(student_t.ppf((1 + CONFIDENCE) / 2, count - 1) * spread))
    return Constant(value, value / factor, value * factor, log_rms)


def _robust_constant(
    kernel: npt.NDArray[np.intp], n: FloatArray, time_s: FloatArray
) -> tuple[float, float]:
    """Return the constant in seconds and the root mean square of log(fit/time)."""
    largest = [
        np.max(np.where(kernel == k, time_s / n**3, 0)) for k in range(int(kernel.max()) + 1)
    ]

    def residual(logs: FloatArray) -> FloatArray:
        fitted = np.exp(logs[0]) + np.exp(logs[1:])[kernel] * n**3
        return np.asarray(np.log(fitted / time_s))

    start = np.log([0.9 * time_s.min(), *largest])
    plain = least_squares(residual, start).x
    scale = max(1.4826 * float(np.median(np.abs(residual(plain)))), 1e-6)
    best = least_squares(residual, plain, loss="soft_l1", f_scale=scale).x
    return float(np.exp(best[0])), float(np.sqrt(np.mean(residual(best) ** 2)))


def constants_table(published: pd.DataFrame) -> pd.DataFrame:
    """Return the start-up constants: of Tables 1–5 on each machine, and of Table 6 alone.

    A cell that several tables print counts once; Table 6's naive column is that of Table 5, and
    no part of its own constant. least_n_near of the kernels at the smallest order are nearer to the
    constant than a share `NEAR` of it.
    """
    rows = []
    for machine, name in MACHINES.items():
        own = published[(published["machine"] == machine) & on_gpu(published)]
        cold = own[own["table"].isin(COLD_TABLES)]
        warm = own[(own["table"] == WARM_TABLE) & (own["implementation"] != "gpu_naive")]
        for cells in (cold, warm):
            if cells["n"].nunique() < 2:
                continue
            distinct = cells.drop_duplicates([*KERNEL, "n", "time_s"])
            kernels = distinct.groupby(KERNEL, dropna=False).ngroup().to_numpy()
            n, time_s = (distinct[name].to_numpy(dtype=float) for name in ("n", "time_s"))
            fitted = fit_constant(kernels, n, time_s)
            least = distinct[distinct["n"] == distinct["n"].min()]
            near = (least["time_s"] - fitted.value).abs() <= NEAR * fitted.value
            rows.append(
                {
                    "machine": name,
                    "first_table": int(cells["table"].min()),
                    "last_table": int(cells["table"].max()),
                    "constant_s": fitted.value,
                    "constant_low_s": fitted.low,
                    "constant_high_s": fitted.high,
                    "kernels": int(kernels.max()) + 1,
                    "cells": len(distinct),
                    "shortest_s": float(time_s.min()),
                    "least_n": int(distinct["n"].min()),
                    "least_n_kernels": len(least),
                    "least_n_near": int(near.sum()),
                    "log_rms": fitted.log_rms,
                }
            )
    return pd.DataFrame(rows, columns=CONSTANTS_COLUMNS)


def cells_table(published: pd.DataFrame, constants: pd.DataFrame) -> pd.DataFrame:
    """Return every printed cell with its rate, and its speedup as printed and without the constant.

    flop_per_s is 2n³/time_s, with the bounds that the rounding of the time leaves; rate_agrees
    says whether the printed rate, rounded too, meets them. speedup is the naive time of the same table
    over the cell's; speedup_without_constant is that of both times less the constant that they hold (Table 6 of
    its own kernels: none). m0_limit is what M0 bounds the speedup of a buffered kernel by, whatever ρ
    is: 2/(1 + 1/n).
    """
    cells = published.assign(rounding_s=published["time_s"].map(half_unit))
    cells = cells.merge(_naive(cells), how="left", on=["table", "machine", "n"], validate="m:1")
    rows = [_cell(row, constants) for row in cells.to_dict("records")]
    return pd.DataFrame(rows, columns=CELLS_COLUMNS).astype({"block_size": "Int64"})


def _naive(cells: pd.DataFrame) -> pd.DataFrame:
    naive = cells[cells["implementation"] == "gpu_naive"]
    names = {"time_s": "naive_time_s", "rounding_s": "naive_rounding_s"}
    return naive[["table", "machine", "n", *names]].rename(columns=names)


def _cell(row: dict[str, Any], constants: pd.DataFrame) -> dict[str, object]:
    """Return the row of one cell of `cells_table`."""
    machine = MACHINES[str(row["machine"])]
    found: dict[str, object] = {**row, "machine": machine, "naive_time_s": np.nan, **_rate(row)}
    if not str(row["implementation"]).startswith("gpu_"):
        return found
    constant = cold_constant(constants, machine)
    is_naive = row["implementation"] == "gpu_naive"
    is_cold = is_naive or row["table"] != WARM_TABLE
    if constant is not None and is_cold:
        found["constant_s"], found["above_constant_s"] = (
            constant.value,
            row["time_s"] - constant.value,
        )
        found |= {"constant_low_s": constant.low, "constant_high_s": constant.high}
    if is_naive:
        return found
    found |= {"naive_time_s": row["naive_time_s"], "speedup": row["naive_time_s"] / row["time_s"]}
    if constant is not None:
        found |= _speedup_without_constant(row, constant, is_cold) | {
            "naive_constant_s": constant.value
        }
    if str(row["implementation"]).startswith("gpu_buffered"):
        found["m0_limit"] = 2 / (1 + 1 / row["n"])
    return found


def _rate(row: dict[str, Any]) -> dict[str, object]:
    """Return the rate by a cell's time with its bounds, and whether the printed one meets them."""
    flop = 2.0 * row["n"] ** 3
    low, high = (flop / (row["time_s"] + side * row["rounding_s"]) for side in (1, -1))
    found: dict[str, object] = {"flop_per_s": flop / row["time_s"]}
    found |= {"flop_per_low_s": low, "flop_per_high_s": high}
    if not pd.isna(row["gflops_printed"]):
        printed, slack = (1e9 * f(row["gflops_printed"]) for f in (float, half_unit))
        meets = low <= printed + slack and high >= printed - slack
        found |= {"printed_flop_per_s": printed, "rate_agrees": bool(meets)}
    return found


def cold_constant(constants: pd.DataFrame, machine: str) -> Constant | None:
    """Return the constant that Tables 1–5 hold on a machine, None where none was fitted."""
    own = constants[(constants["machine"] == machine) & (constants["first_table"] != WARM_TABLE)]
    if own.empty:
        return None
    names = ("constant_s", "constant_low_s", "constant_high_s", "log_rms")
    return Constant(*(float(own.iloc[0][name]) for name in names))


def _speedup_without_constant(
    row: dict[str, Any], constant: Constant, is_cold: bool
) -> dict[str, object]:
    """Return a speedup without the constant, and the least and largest that rounding allows.

    A time that is not above the constant has an infinite gain.
    """
    naive, time_s = row["naive_time_s"], row["time_s"]

    def speedup(above: float, below: float, start: float) -> float:
        rest = below - start if is_cold else below
        return max(above - start, 0.0) / rest if rest > 0 else np.inf

    starts = {constant.low, constant.high} if constant.low == constant.low else {constant.value}
    corners = [
        speedup(naive + up * row["naive_rounding_s"], time_s + down * row["rounding_s"], start)
        for up, down, start in product((-1, 1), (-1, 1), starts)
    ]
    return {
        "speedup_without_constant": speedup(naive, time_s, constant.value),
        "speedup_without_constant_low": min(corners),
        "speedup_without_constant_high": max(corners),
    }


PAIRS_COLUMNS = [
    *("kind", "table", "other_table", "machine", "implementation", "n"),
    *("block_size", "other_block_size", "time_s", "other_time_s", "above_constant_s"),
    *("rounding_s", "differs", "is_empty"),
]
ORDER, REPEAT = "order", "repeat"


def pairs_table(cells: pd.DataFrame) -> pd.DataFrame:
    """Return pairs of `cells_table` that should fit together.

    Kind `ORDER`: two block sizes of a kernel at one n, of which the smaller is not to be faster;
    `differs` says that it is by the printed digits, `is_empty` that its time cannot be told from
    the start-up constant, so that nothing is left of the kernel. Kind `REPEAT`: one cell that two
    tables print; `differs` says that their times do.
    """
    rows = [*_orders(cells), *_repeats(cells)]
    return pd.DataFrame(rows, columns=PAIRS_COLUMNS).astype(
        {"block_size": "Int64", "other_block_size": "Int64"}
    )


def _orders(cells: pd.DataFrame) -> Iterator[dict[str, object]]:
    swept = cells[cells["block_size"].notna()]
    for _, own in swept.groupby(["table", "machine", "implementation", "n"]):
        ranked = own.sort_values("block_size").to_dict("records")
        for place, first in enumerate(ranked):
            for second in ranked[place + 1 :]:
                row = {name: first[name] for name in PAIRS_COLUMNS if name in first}
                yield row | {
                    "kind": ORDER,
                    "other_table": first["table"],
                    "other_block_size": second["block_size"],
                    "other_time_s": second["time_s"],
                    "differs": bool(first["time_s"] < second["time_s"]),
                    "is_empty": _is_empty(first),
                }


def _is_empty(cell: Mapping[str, Any]) -> bool:
    """Tell whether a time cannot be told from the start-up constant."""
    most = np.fmax(cell["constant_s"], cell["constant_high_s"])  # a bound may be missing
    return bool(cell["time_s"] - cell["rounding_s"] <= most)


def _repeats(cells: pd.DataFrame) -> Iterator[dict[str, object]]:
    for _, own in cells.groupby(["machine", *KERNEL, "n"], dropna=False):
        ranked = own.sort_values("table").to_dict("records")
        for second in ranked[1:]:
            row = {name: ranked[0][name] for name in PAIRS_COLUMNS if name in ranked[0]}
            yield row | {
                "kind": REPEAT,
                "other_table": second["table"],
                "other_block_size": second["block_size"],
                "other_time_s": second["time_s"],
                "differs": bool(second["time_s"] != ranked[0]["time_s"]),
            }


def on_gpu(published: pd.DataFrame) -> pd.Series:
    """Tell which published cells are of a GPU."""
    return published["implementation"].str.startswith("gpu_")
