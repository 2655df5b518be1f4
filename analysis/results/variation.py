"""Variation of a comparison between sessions of one build, from a user's repeated sessions.

Repeated sessions of one build are divided at random into sides as large as those compared. The
differences of these sides need no model of the sessions: they include disturbed ones, effects
common to all benchmarks, and the statistic that represents the sessions of a side.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from analysis.stats.estimates import FloatArray, seeded
from analysis.stats.significance import FALSE_DISCOVERIES

# What represents the samples of a session, and the quantile that represents the sessions of a side.
# Disturbances lengthen times, so low values vary less on a busy machine.
MEDIAN, MINIMUM = "median", "min"
SIDES = {MEDIAN: 0.5, MINIMUM: 0.25}
NORMAL = 1.4826  # standard deviation of normal values over their median distance
_DRAWS = 200  # comparisons of repeated sessions
# Least scale: a millionth of a time, and a thirtieth of the largest difference if most are 0.
_LEAST, _TIES = 1e-6, 1 / 30


class Sessions(NamedTuple):
    """Log location of the samples, its spread and variance, and numbers of samples.

    `spread` is the log ratio of median and minimum. Each has a row per benchmark and a column per
    session; NaN: not measured.
    """

    log_s: pd.DataFrame
    spread: pd.DataFrame
    noise: pd.DataFrame
    samples: pd.DataFrame

    def of(self, sessions: Sequence[str]) -> "Sessions":
        """Return the columns of these sessions."""
        return Sessions(*(table.reindex(columns=[*sessions]) for table in self))


def located(table: pd.DataFrame) -> dict[str, Sessions]:
    """Return the sessions by location, for samples with positive times."""
    logs = table.assign(time_s=np.log(table["time_s"]))
    groups = logs.groupby(["benchmark", "session"], observed=True)["time_s"]
    found = groups.agg([MEDIAN, MINIMUM, "var", "size"]).unstack("session")
    noise = found["var"].fillna(0) / found["size"] * np.pi / 2  # of the median of normal values
    rest = (found[MEDIAN] - found[MINIMUM], noise, found["size"])
    return {location: Sessions(found[location], *rest) for location in SIDES}


def quantile(values: FloatArray, share: float) -> FloatArray:
    """Return a quantile along the last axis, without NaN; NaN if all are."""
    if not values.shape[-1]:
        return np.full(values.shape[:-1], np.nan)
    ordered = np.sort(values, axis=-1)  # NaN last
    place = share * np.maximum(np.isfinite(ordered).sum(axis=-1, keepdims=True) - 1, 0)
    below, above = np.floor(place).astype(int), np.ceil(place).astype(int)
    low, high = (np.take_along_axis(ordered, at, axis=-1) for at in (below, above))
    return (low + (place - below) * (high - low))[..., 0]


def same_build(log_s: FloatArray, size: int, share: float) -> FloatArray:
    """Return log ratios of sides of `size` sessions of one build, shape (benchmarks, draws).

    `log_s` has a column per session; `share` is the quantile that represents a side. Sides are at
    most half of the sessions. NaN: there is one session.
    """
    count = log_s.shape[1]
    size = max(1, min(size, count // 2))
    pairs = count // (2 * size)
    if not pairs:
        return np.full((len(log_s), 1), np.nan)
    rng = seeded("sides", count, size)
    orders = [rng.permutation(count)[: 2 * size * pairs] for _ in range(-(-_DRAWS // pairs))]
    sides = [quantile(log_s[:, order], share) for order in np.reshape(orders, (-1, size))]
    return np.diff(np.reshape(sides, (-1, 2, len(log_s))), axis=1)[:, 0].T


def scale(differences: FloatArray) -> FloatArray:
    """Return the standard deviation of log ratios by benchmark, without regard to outliers.

    It is at least that of half of the benchmarks, because few sessions may agree by chance.
    """
    typical, largest = (quantile(np.abs(differences), share) for share in (0.5, 1))
    typical = NORMAL * typical
    return np.maximum(np.maximum(typical, quantile(typical, 0.5)), _TIES * largest + _LEAST)


def widening(multiples: FloatArray, sessions: int) -> float:
    """Return the factor on standard deviations that leaves no comparison of one build significant.

    `multiples` are its log ratios in standard deviations, shape (benchmarks, comparisons); the
    p-values of a comparison are adjusted by Benjamini and Hochberg. The largest of R sessions is
    exceeded with a probability of 1/(R + 1). If that is above the rate of false discoveries, the
    factor is extrapolated to this rate, with a variance that just exists (a tail of x^-2).
    """
    ordered = np.sort(np.nan_to_num(np.abs(multiples)), axis=0)[::-1]
    ranks = np.arange(1, len(ordered) + 1) / len(ordered)
    critical = -stdtrit(sessions - 1, FALSE_DISCOVERIES / 2 * ranks)
    seen = float((ordered / critical[:, None]).max())
    return max(1.0, seen * max(1.0, 1 / (FALSE_DISCOVERIES * (sessions + 1))) ** 0.5)


def excess(known: Sessions, sides: Sequence[Sessions]) -> FloatArray:
    """Return how much more the sides vary than the known sessions, as a ratio of variances >= 1.

    The samples of a session show it by benchmark; the sessions of a side show it for half of the
    benchmarks. So a machine that is busier than in the known sessions makes verdicts undecided.
    """
    usual = _one_session([known])
    within = [quantile(part.spread.to_numpy(), 0.5) ** 2 for part in (known, *sides)]
    by_samples = [np.fmax(1, (usual + spread) / (usual + within[0])) for spread in within[1:]]
    mean = np.mean(by_samples, axis=0)
    if min(side.log_s.shape[1] for side in sides) < 2:
        return mean
    return np.fmax(mean, quantile(_one_session(sides) / usual, 0.5))


def _one_session(groups: Sequence[Sessions]) -> FloatArray:
    """Return the variance of one session by benchmark, from the pairs of sessions of each group."""
    pairs = []
    for log_s in (group.log_s.to_numpy() for group in groups):
        one, other = np.triu_indices(log_s.shape[1], 1)
        pairs.append(log_s[:, one] - log_s[:, other])
    return scale(np.hstack(pairs)) ** 2 / 2
