"""The variation between sessions of one GPU model, needed to compare sessions.

The model is log time = cell + session + noise. The effect of a session has a part proportional to
the time, a constant duration and, for kernels whose matrices are in device memory, a share of the
difference in its latency. In some sessions all launches take longer; this `offset` is estimated
from short kernels and subtracted. The share `OUTLIERS` of the times varies more, because GPUs of
one model place the blocks of some kernels differently, and single end-to-end runs are slow. The
distribution of a log ratio is therefore a mixture of two (Tukey, A survey of sampling from
contaminated distributions, 1960). Sessions on one GPU since one start of its host vary less.
`python -m benchmarks.verdict_rates` fits each kind to sessions.
"""

import csv
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import elementwise
from scipy.special import stdtr, stdtrit
from scipy.stats import siegelslopes

from analysis.stats.estimates import CONFIDENCE, FloatArray

KERNEL, PINNED, PAGEABLE, ON_CPU = "kernel", "pinned", "pageable", "CPU"
ONE_START = ", one start"  # suffix of kinds: sessions on one GPU since one start of its host
# Share of outliers, less than 1 − `CONFIDENCE` so that a small change of an ordinary kernel is
# significant; degrees of freedom of their distribution, few because large outliers occur.
OUTLIERS, OUTLIER_FREEDOM = 0.03, 2
# By how much launches of a session take longer: standard deviation, largest value, kernels needed.
OFFSET_S, LARGEST_OFFSET_S, FEWEST = 5e-8, 2e-7, 10
# Of the SM clock in one session: standard deviation of its logarithm, and largest difference. An
# H100 at 1980 MHz runs whole seconds one step of 15 MHz (0.76 %) lower, and reports 1980 MHz.
CLOCK, LARGEST_CLOCK = 4e-3, 1.6e-2


class Between(NamedTuple):
    """The variation of one session: standard deviations of its effects, and a factor of the noise.

    `latency`: standard deviation as a share of the log ratio of the latencies of device memory.
    `outlier`: scale of outliers. `freedom`: degrees of freedom of the other standard deviations:
    starts − configurations, or within starts sessions − starts.
    """

    relative: float
    absolute_s: float
    noise: float
    latency: float
    outlier: float
    freedom: float


def _fitted() -> dict[str, Between]:
    """Return the variation of each kind of time, as `python -m benchmarks.verdict_rates` prints it.

    It was fitted to 16 sessions of an H200 and an H100 with 12 starts: those of `data/calibration`
    without planted work, h100-sxm-4 to -7, and h200-sxm-5 to -8 of commit 858bf146.
    """
    with Path(__file__).with_name("verdict_variances.csv").open(encoding="utf-8") as lines:
        rows = [dict(row) for row in csv.DictReader(lines)]
    return {row.pop("kind"): Between(**{k: float(v) for k, v in row.items()}) for row in rows}


KNOWN = _fitted()


def kind_of(location: str) -> str:
    """Return the kind, a key of `KNOWN`, of a GPU's runs with the matrices at a location.

    Only pinned and pageable memory have enough sessions, so other locations count as pinned memory.
    """
    return PAGEABLE if location == PAGEABLE else PINNED


def offset(a_s: pd.Series, b_s: pd.Series) -> float:
    """Return by how many seconds a launch takes longer in B, from times of short kernels.

    It is the intercept of repeated medians (Siegel, Biometrika 69, 1982), so neither a common ratio
    nor single slower kernels change it. NaN if there are less than `FEWEST` kernels.
    """
    if len(a_s) < FEWEST:
        return np.nan
    intercept = siegelslopes(b_s - a_s, a_s).intercept
    return float(np.clip(intercept, -LARGEST_OFFSET_S, LARGEST_OFFSET_S))


def clock_factor(ratio: pd.Series) -> float:
    """Return the factor by which all kernels of identical code take longer in B: their median.

    `ratio` has the ratio B/A of each kernel. NaN if there are less than `FEWEST` kernels.
    """
    if len(ratio) < FEWEST:
        return np.nan
    return float(np.exp(np.clip(np.log(ratio).median(), -LARGEST_CLOCK, LARGEST_CLOCK)))


def variances(rows: pd.DataFrame, model_of: Mapping[str, Between]) -> pd.DataFrame:
    """Return one row per log ratio: its variances between, noise and outlier, and freedom.

    `rows` has kind (a key of `model_of`), explained_low and explained_high, offset_s and
    clock_factor (NaN if unknown), and per side sessions_a, median_a_s and noise_a (bootstrap
    variance of the log median), sessions_b, median_b_s and noise_b. between is the variance between
    sessions, noise that of samples, freedom the degrees of freedom of between. The mean of several
    sessions has the variance of one divided by their number. The variance of an outlier is between
    + noise + outlier; the column outliers has the share of outliers.
    """
    model = np.array([model_of[kind] for kind in rows["kind"]]).reshape(-1, len(Between._fields))
    relative, absolute_s, noise, latency, outlier, freedom = model.T
    shares = 1 / rows[["sessions_a", "sessions_b"]].to_numpy()
    squares = rows[["median_a_s", "median_b_s"]].to_numpy() ** 2
    square_s = absolute_s**2 + OFFSET_S**2 * np.isnan(rows["offset_s"].to_numpy())
    square = relative**2 + CLOCK**2 * np.isnan(rows["clock_factor"].to_numpy())
    between = (square[:, None] + square_s[:, None] / squares) * shares
    of_latency = latency * np.log(rows["explained_high"] / rows["explained_low"])
    return pd.DataFrame(
        {
            "between": between.sum(axis=1) + of_latency**2,
            "noise": noise * (rows["noise_a"] + rows["noise_b"]),
            "outlier": outlier**2 * shares.sum(axis=1),
            "outliers": OUTLIERS,
            "freedom": freedom,
        }
    )


def mixture(parts: Mapping[Any, Any], of: Callable[[Any, Any], Any]) -> Any:
    """Return a function `of` degrees of freedom and scale for the mixture that `variances` has.

    The mixture has two parts: usual values and outliers.
    """
    usual = parts["between"] + parts["noise"]
    other = of(OUTLIER_FREEDOM, np.sqrt(usual + parts["outlier"]))
    share = parts["outliers"]
    return (1 - share) * of(parts["freedom"], np.sqrt(usual)) + share * other


def beyond(distance: Any, parts: Mapping[Any, Any]) -> Any:
    """Return the probability that a log ratio exceeds `distance` by chance, from `variances`."""
    return mixture(parts, lambda freedom, scale: stdtr(freedom, -distance / scale))


def half_interval(parts: pd.DataFrame) -> pd.Series:
    """Return half the width of the 95 % interval of each log ratio, from its `variances`."""
    return exceeded(parts, (1 - CONFIDENCE) / 2)


def exceeded(parts: pd.DataFrame, probability: float) -> pd.Series:
    """Return the distance that a log ratio exceeds with this probability (inverse of `beyond`)."""
    total = parts[["between", "noise", "outlier"]].sum(axis=1, skipna=False)
    if not parts["outliers"].any():
        return np.sqrt(parts["between"] + parts["noise"]) * -stdtrit(parts["freedom"], probability)
    widest = np.sqrt(total) * -stdtrit(np.minimum(OUTLIER_FREEDOM, parts["freedom"]), probability)

    def excess(distance: FloatArray, *values: FloatArray) -> Any:
        return beyond(distance, dict(zip(parts, values, strict=True))) - probability

    values = tuple(parts[name].to_numpy() for name in parts)
    ends = (np.zeros(len(parts)), 1.01 * widest.to_numpy())
    return pd.Series(elementwise.find_root(excess, ends, args=values).x, parts.index)
