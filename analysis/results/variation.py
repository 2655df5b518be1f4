"""Variation between sessions of one build, estimated from a user's own repeated sessions.

log location(benchmark, session) = mean of the benchmark + effect of the session + effect of the
session on this benchmark. The variance of a benchmark is estimated from its few sessions and from
the other benchmarks (Smyth, Stat. Appl. Genet. Mol. Biol. 3 (2004) 3).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import comb, digamma, polygamma
from scipy.stats import binom

from analysis.stats.estimates import FloatArray, Groups, quantile_variance

# What represents the samples of a session, and the sessions of a side. Disturbances of a busy
# machine lengthen times, so the minimum is of use if any sample and any session is undisturbed.
MEDIAN, MINIMUM = "median", "minimum"
LOCATIONS = {MEDIAN: 0.5, MINIMUM: 0.0}
# Least variance relative to the median one, and absolute: a few equal times do not prove more.
_SMALLEST, _LEAST = 1e-5, 1e-12
_MOST = 1e6  # degrees of freedom
# An outlier: distance in standard deviations, estimated from the median distance; least sessions.
_FAR, _FEWEST = 5.0, 6
NORMAL = 1.4826  # standard deviation of normal values over their median distance


class Located(NamedTuple):
    """Log locations, their variances from samples (0 below 6), and numbers of samples.

    Each has a row per benchmark and a column per session; NaN: not measured.
    """

    log_s: pd.DataFrame
    noise: pd.DataFrame
    samples: pd.DataFrame

    def of(self, sessions: Sequence[str]) -> "Located":
        """Return the locations of these sessions."""
        return Located(*(table[[*sessions]] for table in self))


class Variation(NamedTuple):
    """Variance of one session by benchmark, noise of its samples included, NaN if unknown.

    `noise`: the part of the samples. `freedom`: degrees of freedom of the variance. `outliers`:
    share of sessions far off, `outlier`: their additional variance, both common to all benchmarks.
    """

    variance: pd.Series
    noise: pd.Series
    freedom: pd.Series
    outliers: float
    outlier: float


def located(table: pd.DataFrame, quantile: float) -> Located:
    """Return this quantile of the samples of each benchmark and session; times are positive."""
    groups = Groups.of(table, ["benchmark", "session"])
    times = np.log(table["time_s"].to_numpy())[np.argsort(groups.number, kind="stable")]
    counts = groups.counts
    starts, rows = np.cumsum(counts) - counts, groups.keys.assign(samples=counts)
    for count in np.unique(counts):
        chosen = counts == count
        values = times[starts[chosen][:, None] + np.arange(count)]
        noise = np.nan_to_num(quantile_variance(values, quantile))
        rows.loc[chosen, ["log_s", "noise"]] = np.c_[np.quantile(values, quantile, axis=1), noise]
    pivot = rows.pivot(index="benchmark", columns="session")
    return Located(*(pivot[name] for name in ("log_s", "noise", "samples")))


def variation(at: Located, builds: Sequence[Sequence[str]]) -> Variation:
    """Return the variation between the sessions of each build, pooled over `builds`.

    A location far from the median of its build is an outlier. With R sessions, an event of
    probability 1/(R + 2) cannot be excluded, so the share of outliers is at least as large.
    """
    parts = [at.log_s[[*build]] for build in builds if len(build) > 1]
    count = sum(map(len, builds))
    noise = at.noise[[session for build in builds for session in build]].median(axis=1)
    if not parts or max(part.count(axis=1).max() for part in parts) < 2:
        unknown = pd.Series(np.nan, at.log_s.index)
        return Variation(unknown, noise, unknown, np.nan, np.nan)
    off = pd.concat([part.sub(part.median(axis=1), axis=0) for part in parts], axis=1)
    typical = off.abs().median(axis=1)
    typical = NORMAL * typical.clip(lower=typical.median() / 2)
    is_far = off.abs().gt(_FAR * typical, axis=0) & (off.shape[1] >= _FEWEST)
    usual = [part.mask(is_far[part.columns]) for part in parts]
    rest = pd.concat([part.sub(part.mean(axis=1), axis=0) for part in usual], axis=1)
    freedom = sum((part.notna().sum(axis=1) - 1).clip(lower=0) for part in usual)
    pooled, degrees_of_freedom = _pooled(rest, freedom.where(freedom > 0).astype(float))
    far = off.to_numpy()[is_far.to_numpy()]
    share = max(len(far) / max(off.count().sum(), 1), 1 / (count + 2))
    return Variation(pooled, noise, degrees_of_freedom, share, np.mean(far**2) if len(far) else 0.0)


def _pooled(rest: pd.DataFrame, freedom: pd.Series) -> tuple[pd.Series, pd.Series]:
    """Return variances of benchmarks, pooled, and their degrees of freedom.

    With an effect of a session that benchmarks share, their variances are estimated together: the
    degrees of freedom follow Satterthwaite (Biometrics Bulletin 2 (1946) 110).
    """
    variance = (rest**2).sum(axis=1) / freedom
    variance = variance.clip(lower=max(variance.median() * _SMALLEST, _LEAST))
    prior, prior_freedom = _prior(variance.dropna().to_numpy(), float(freedom.median()))
    total = freedom + prior_freedom
    pooled = (freedom * variance + prior_freedom * prior) / total
    benchmarks = int(variance.notna().sum())
    scaled = rest.div(np.sqrt(pooled), axis=0)
    mean_square = float((scaled.mean() ** 2).sum() / freedom.median())
    shared = np.clip((benchmarks * mean_square - 1) / max(benchmarks - 1, 1), 0, 1)
    return pooled, 1 / (shared**2 / freedom + (1 - shared) ** 2 / total)


def _prior(variances: FloatArray, freedom: float) -> tuple[float, float]:
    """Return the variance that benchmarks have in common, and its weight in degrees of freedom.

    Both are estimated from the logarithms of the variances of all benchmarks. The weight is at most
    the degrees of freedom of the other benchmarks.
    """
    most = min(freedom * (len(variances) - 1), _MOST)
    if not most or not variances.all():
        return 0.0, 0.0
    logs = np.log(variances) - digamma(freedom / 2) + np.log(freedom / 2)
    spread = np.var(logs, ddof=1) - polygamma(1, freedom / 2)
    weight = most
    if spread > polygamma(1, most / 2):
        weight = 2 * brentq(lambda half: polygamma(1, half) - spread, 1e-3, most / 2)
    return float(np.exp(logs.mean() + digamma(weight / 2) - np.log(weight / 2))), float(weight)


def steadiest(table: pd.DataFrame, builds: Sequence[Sequence[str]]) -> tuple[str, Located]:
    """Return the location that varies least between the sessions of a build; without, the median.

    The variance of half of the benchmarks is compared.
    """
    found = {name: located(table, quantile) for name, quantile in LOCATIONS.items()}
    spread = {name: variation(at, builds).variance.median() for name, at in found.items()}
    name = min(spread, key=lambda each: (np.nan_to_num(spread[each]), -LOCATIONS[each]))
    return name, found[name]


def median_share(count: Any) -> Any:
    """Return the variance of the median of `count` normal values, relative to one value."""
    return np.pi / (2 * count + np.pi - 2)


def of_side(own: Located, location: str, sessions: int, outliers: float) -> pd.DataFrame:
    """Return by benchmark what represents the sessions of a side, as a side of `sessions` sessions.

    Columns: log_s, NaN without a session; share, its variance relative to that of one session; far,
    the probability that it is an outlier. The minimum is the mean of the minima of all groups of so
    many sessions, because the minimum of more sessions is smaller.
    """
    values = np.sort(own.log_s.to_numpy(dtype=float), axis=1)  # NaN last
    count = own.log_s.notna().sum(axis=1).to_numpy()
    size = np.minimum(count, sessions)
    if location == MEDIAN:
        share = median_share(count)
        far, log_s = binom.sf((count - 1) // 2, count, outliers), own.log_s.median(axis=1)
    else:
        behind = count[:, None] - np.arange(1, values.shape[1] + 1)
        weight = comb(np.maximum(behind, 0), size[:, None] - 1) * (behind >= 0)
        log_s = np.nansum(values * weight, axis=1) / comb(count, size)
        share, far = np.maximum(size, 1) ** -0.5, outliers ** np.maximum(size, 1)
        log_s = np.where(count > 0, log_s, np.nan)
    columns = {"log_s": log_s, "share": share, "far": far, "sessions": count}
    return pd.DataFrame(columns, own.log_s.index)
