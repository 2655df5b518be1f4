"""The fits of M0 to Table 5 as published and as measured, and what they leave unexplained."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.model import Estimate, Fit, fit, m0_eta, paired
from analysis.published import MACHINES
from analysis.published import SOURCE as PUBLISHED
from analysis.statistics import DRAWS, SEED, FloatArray, ratio_intervals
from analysis.study import Source, published_times

FIT_COLUMNS = [
    *("source", "machine", "quantity", "rho", "rho_low", "rho_high", "rho_bounded"),
    *("t_G_s", "t_G_low_s", "t_G_high_s", "t_S_s", "t_S_low_s", "t_S_high_s"),
    *("cells", "samples", "log_rms", "draws", "seed"),
]
RESIDUAL_COLUMNS = [
    *("source", "machine", "quantity", "n", "block_size", "holdout", "time_s", "naive_time_s"),
    *("gain", "gain_low", "gain_high", "m0_gain", "log_residual"),
]
_TABLE = 5


@dataclass(frozen=True)
class _Case:
    """One set of times to fit; `draws` and `samples` go by the index of `times`."""

    source: str
    machine: str
    quantity: str
    times: pd.DataFrame
    draws: FloatArray | None
    samples: pd.Series | None
    holdout_sizes: set[int]


def fit_tables(
    published: pd.DataFrame, sources: list[Source], progress: Callable[[str], None]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the fits (`FIT_COLUMNS`) and their residuals (`RESIDUAL_COLUMNS`).

    A row of the first is the published Table 5, or a GPU's kernel or total times. A row of the
    second is one gain of `block` over `naive`; log_residual = log(m0_gain/gain) is above 0 where
    the kernel is slower than M0 says. Held-out orders have a prediction, but no part in the fit.
    """
    fits, residuals = [], []
    for case in _cases(published, sources):
        pairs = paired(case.times)
        holdout = pairs["n"].isin(case.holdout_sizes)
        fitted = pairs[~holdout]
        if fitted.empty:
            continue
        progress(f"fit of M0: {case.source}, {case.quantity} times")
        result = fit(fitted, case.draws)
        labels = {name: getattr(case, name) for name in ("source", "machine", "quantity")}
        fits.append(labels | _fit_row(result, fitted, case.samples))
        residuals.append(_residuals(pairs, result, case.draws).assign(**labels, holdout=holdout))
    frames = [frame[RESIDUAL_COLUMNS] for frame in residuals]
    return (
        pd.DataFrame(fits, columns=FIT_COLUMNS).astype({"samples": "Int64"}),
        pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=RESIDUAL_COLUMNS),
    )


def _cases(published: pd.DataFrame, sources: list[Source]) -> Iterator[_Case]:
    for machine, rows in published[published["table"] == _TABLE].groupby("machine"):
        times = published_times(rows, _TABLE)
        yield _Case(PUBLISHED, MACHINES[str(machine)], "total", times, None, None, set())
    for source in sources:
        for quantity in ("kernel", "total"):
            yield _Case(
                source.label,
                source.machine,
                quantity,
                source.times(quantity),
                source.draws[quantity],
                source.cells["samples"],
                source.holdout_sizes,
            )


def _fit_row(result: Fit, fitted: pd.DataFrame, samples: pd.Series | None) -> dict[str, object]:
    """Return the row of one fit: estimates, the cells and samples behind them, draws and seed."""
    rows = {*fitted["row"], *fitted["naive_row"]}
    return {
        **_columns("rho", "", result.rho),
        "rho_bounded": result.rho_bounded,
        **_columns("t_G", "_s", result.t_g),
        **_columns("t_S", "_s", result.t_s),
        "cells": len(rows),
        "samples": None if samples is None else int(samples.loc[sorted(rows)].sum()),
        "log_rms": result.log_rms,
        "draws": DRAWS,
        "seed": SEED,
    }


def _columns(name: str, unit: str, estimate: Estimate) -> dict[str, float]:
    return {
        f"{name}{unit}": estimate.value,
        f"{name}_low{unit}": estimate.low,
        f"{name}_high{unit}": estimate.high,
    }


def _residuals(pairs: pd.DataFrame, result: Fit, draws: FloatArray | None) -> pd.DataFrame:
    table = pairs[["n", "block_size", "time_s", "naive_time_s", "gain"]].assign(
        gain_low=np.nan, gain_high=np.nan
    )
    if draws is not None:
        rows = (draws[pairs[name].to_numpy(dtype=int)] for name in ("naive_row", "row"))
        table["gain_low"], table["gain_high"] = ratio_intervals(*rows)
    table["m0_gain"] = m0_eta(result.rho.value, pairs["block_size"].to_numpy(dtype=float))
    table["log_residual"] = np.log(table["m0_gain"] / table["gain"])
    return table
