"""Verdicts on the benchmarks of two builds, with the variation between the user's sessions.

Repeated sessions of one build, divided at random into sides as large as those compared, give the
variation. A change that most benchmarks share is tested apart: the machine may have caused it.
"""

from collections.abc import Sequence
from textwrap import shorten
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from analysis.stats import between, significance
from analysis.stats.estimates import FloatArray, IntArray, seeded
from analysis.stats.significance import FALSE_DISCOVERIES, SAME, SLOWER
from base.errors import StudyError

MOST = "most benchmarks"  # name of the row for the change that most benchmarks share
LOW = 0.25  # quantile that represents a session: disturbances lengthen times
NORMAL = 1.4826  # standard deviation of normal values over their median distance
POWER, FEWEST = 0.95, 5  # probability of finding a slowdown; sessions needed for rates
SEVERAL = 3  # sessions per side, and benchmarks, to tell what most benchmarks share
_COMPARISONS = 20  # comparisons of repeated sessions that give this rate
_DRAWS, _MANY = (200, 50), 2000  # draws of sides for up to _MANY benchmarks, and for more
_LEAST, _TIES = 1e-6, 1 / 30  # least scale: of a time, of the largest difference if most are 0


class Builds(NamedTuple):
    """Names of sessions: of A, of B, and repeated ones of one build, which may include A's."""

    a: Sequence[str]
    b: Sequence[str]
    repeats: Sequence[str]


class Comparison(NamedTuple):
    """The result of a comparison: the rows of `judged`, the counts of `same_build`, and notes."""

    verdicts: pd.DataFrame
    same_build_slower: list[int]
    notes: list[str]


def compare(table: pd.DataFrame, builds: Builds, threshold: float) -> Comparison:
    """Return the verdict on each benchmark that A and B have, and on what `MOST` share.

    `table` has benchmark, session and time_s, in order of time. Raise StudyError if none is common.
    """
    zero = {*table.loc[table["time_s"] == 0, "benchmark"]}
    table = table[~table["benchmark"].isin(zero)]
    a, b = ({*table.loc[table["session"].isin(side), "benchmark"]} for side in builds[:2])
    if not a & b:
        raise StudyError("A and B: no benchmark in common with times above 0; names must be equal")
    missing = {"only in A": sorted(a - b), "only in B": sorted(b - a), "time 0": sorted(zero)}
    notes = [f"{text}: {shorten(', '.join(names), 90)}" for text, names in missing.items() if names]
    sessions = located(table[table["benchmark"].isin(a & b)])
    builds = Builds(*([name for name in sessions["log_s"] if name in side] for side in builds))
    if not builds.repeats:
        raise StudyError("--repeat: no benchmark of A and B; name files of the same benchmarks")
    verdicts = judged(sessions, builds, threshold)
    if verdicts.set_index("benchmark")["verdict"].get(MOST, SAME) != SAME:
        text = f"alternate {SEVERAL} or more sessions of each build"
        notes.append(f"{MOST} moved: it is the machine or the build as a whole; {text}")
    return Comparison(verdicts, same_build(sessions, builds, threshold), notes)


def located(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row per benchmark, and a column per value and session in the order of `table`.

    Values: log_s represents the samples; spread is log(median/minimum); noise is the variance of
    log_s due to few samples; size is their number. NaN: not measured. Times must be positive.
    """
    logs = table.assign(time_s=np.log(table["time_s"]))
    groups = logs.groupby(["benchmark", "session"], observed=True)["time_s"]
    values = groups.agg(["median", "min", "var", "size"]).assign(log_s=groups.quantile(LOW))
    values["spread"] = values["median"] - values["min"]
    values["noise"] = values["var"].fillna(0) / values["size"] * np.pi / 2  # of a normal median
    columns = values[["log_s", "spread", "noise", "size"]].unstack("session")
    return columns.reindex(columns=table["session"].unique(), level="session")


def of(sessions: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Return only the columns of these sessions."""
    return sessions.loc[:, sessions.columns.isin(names, level="session")]


def apart(part: pd.DataFrame) -> list[tuple[pd.DataFrame, pd.DataFrame]]:
    """Return two pairs: the benchmarks with and without their common change, then that change.

    The common change of a session is its median log time, relative to the benchmarks' medians.
    """
    if len(part) < SEVERAL:
        return [(part, part)]
    rest, most, log_s = part.copy(), part.median().to_frame(MOST).T, part["log_s"]
    shared = log_s.sub(log_s.median(axis=1), axis=0).median()
    rest["log_s"], most["log_s"], most["noise"] = log_s - shared, shared.to_numpy()[None], 0.0
    return [(part, rest), (most, most)]


def judged(sessions: pd.DataFrame, builds: Builds, threshold: float) -> pd.DataFrame:
    """Return a sorted row per benchmark, and one for the change that most share (`MOST`).

    Columns: those of `compared`, verdicts, those of `significance.with_intervals`, and found: the
    smallest ratio that is called slower with a probability of 95 %, if it is the only one (NaN:
    unknown). Slower or faster are only benchmarks that are so with and without the common change.
    """
    frames = []
    for part, rest in apart(of(sessions, [name for side in builds for name in side])):
        (frame, parts), (other, rest_parts) = compared(part, builds), compared(rest, builds)
        if part is rest and len(sessions) >= SEVERAL > min(map(len, builds[:2])):
            rest_parts = rest_parts * np.nan  # one session may be disturbed as a whole
        distance, moved = np.log(frame["ratio"]), np.log(other["ratio"])
        nearer = pd.Series(np.median([distance, moved, 0 * distance], axis=0), frame.index)
        frame = frame.assign(margin=threshold, ratio=np.exp(nearer))
        p_values = significance.tests(distance, frame["margin"], parts, distance)
        p_values["p_differs"] = 2 * between.beyond(nearer.abs(), rest_parts)
        frame = significance.evaluated(frame.assign(**p_values), threshold / 2)
        frame = frame.assign(ratio=np.exp(distance))
        frame = significance.with_intervals(frame, threshold, parts, nearer)
        least = np.log(1 + threshold / 2) + (moved - distance).clip(lower=0)
        least = np.maximum(between.exceeded(rest_parts, FALSE_DISCOVERIES / 2 / len(frame)), least)
        smallest = np.exp(least + between.exceeded(rest_parts, 1 - POWER))
        frames.append(frame.assign(found=smallest.where(parts["freedom"] >= FEWEST - 1)))
    return pd.concat(frames).rename_axis("benchmark").reset_index()


def compared(part: pd.DataFrame, builds: Builds) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return one row per benchmark with both sides, and the variances of their log ratios.

    Columns: sessions_a, samples_a, time_a_s, those of B, ratio B/A, those of `between.variances`.
    """
    usual, *sides = groups = [of(part, names) for names in (builds.repeats, *builds[:2])]
    same = ratios(part, builds)
    deviation, size = scale(same), min(len(builds.a), len(builds.b))
    variance = (deviation * widening(same / deviation[:, None], len(builds.repeats), size)) ** 2
    calm, *busy = (variance + median(group["spread"].to_numpy()) ** 2 for group in groups)
    excess = np.mean([np.fmax(1, spread / calm) for spread in busy], axis=0)
    logs = (group["log_s"].to_numpy() for group in groups)
    calm, *busy = (median(np.abs(log_s - median(log_s)[:, None])) ** 2 for log_s in logs)
    variance *= np.fmax(excess, median(np.mean(busy, axis=0) / (calm + _LEAST**2)))
    frame, noise = pd.DataFrame(index=part.index), 0
    for letter, side in zip("ab", sides, strict=True):
        frame[f"sessions_{letter}"] = count = side["log_s"].count(axis=1)
        frame[f"samples_{letter}"] = side["size"].sum(axis=1).astype(int)
        frame[f"time_{letter}_s"] = np.exp(median(side["log_s"].to_numpy()))
        noise = noise + median(side["noise"].to_numpy()) / count
    parts = pd.DataFrame({"noise": np.minimum(noise, variance), "outlier": 0.0, "outliers": 0.0})
    freedom = usual["log_s"].count(axis=1).clip(lower=2) - 1
    parts = parts.assign(between=variance - parts["noise"], freedom=freedom)
    return frame.assign(ratio=frame["time_b_s"] / frame["time_a_s"]), parts


def drawn(part: pd.DataFrame, builds: Builds, parts: int = 2) -> IntArray:
    """Return random pairs of sides: indices of repeated sessions, shape (draws, 2, size).

    A side has at most the share 1/`parts` of the sessions. Sides alternate as A and B do (A B A B
    or A B B A), so that a drift cancels; otherwise one is later.
    """
    count = len(builds.repeats)
    size = max(1, min(len(builds.a), len(builds.b), count // parts))
    order = [name for name in part["log_s"] if name in {*builds.a, *builds.b}]
    a, b = (np.mean([order.index(name) for name in side]) for side in builds[:2])
    rng, draws = seeded("sides", count, size), range(_DRAWS[len(part) > _MANY])
    orders = np.sort([rng.permutation(count)[: 2 * size] for _ in draws])
    if abs(a - b) <= 1:
        return orders.reshape(-1, size, 2).swapaxes(1, 2)
    return orders.reshape(-1, 2, size)


def ratios(part: pd.DataFrame, builds: Builds) -> FloatArray:
    """Return the log ratios of pairs of sides of one build: (benchmarks, draws)."""
    log_s = of(part, builds.repeats)["log_s"].to_numpy()
    if log_s.shape[1] < 2:
        return np.full((len(log_s), 1), np.nan)
    orders, blocks = drawn(part, builds), np.array_split(log_s, 1 + len(log_s) // 500)  # for memory
    sides = [median(block[:, orders]) for block in blocks]
    return -np.diff(np.concatenate(sides))[..., 0]


def same_build(sessions: pd.DataFrame, builds: Builds, threshold: float) -> list[int]:
    """Return how many benchmarks are called slower, in random comparisons of one build with itself.

    Each uses the variation between the remaining sessions. Fewer than `FEWEST` sessions give none.
    """
    slower: list[int] = []
    for places in drawn(sessions, builds, 4)[: _COMPARISONS * (len(builds.repeats) >= FEWEST)]:
        a, b = ([builds.repeats[at] for at in side] for side in places)
        rest = [name for name in builds.repeats if name not in {*a, *b}]
        verdicts = judged(sessions, Builds(a, b, rest), threshold)["verdict"]
        slower.append(int((verdicts == SLOWER).sum()))
    return slower


def median(values: FloatArray) -> FloatArray:
    """Return the median along the last axis, ignoring NaN; NaN if there are no values."""
    if not values.shape[-1]:
        return np.full(values.shape[:-1], np.nan)
    ordered = np.sort(values, axis=-1)  # NaN is sorted to the end
    last = np.maximum(np.isfinite(ordered).sum(axis=-1, keepdims=True) - 1, 0)
    a, b = (np.take_along_axis(ordered, at, axis=-1) for at in (last // 2, (last + 1) // 2))
    return np.asarray((a + b)[..., 0] / 2)


def scale(differences: FloatArray) -> FloatArray:
    """Return the standard deviation of each benchmark's differences, insensitive to outliers.

    It is at least the median over the benchmarks, because few sessions may agree by chance.
    """
    typical, largest = NORMAL * median(np.abs(differences)), np.nan_to_num(np.abs(differences))
    return np.maximum(np.maximum(typical, median(typical)), _TIES * largest.max(axis=1) + _LEAST)


def widening(multiples: FloatArray, sessions: int, size: int) -> float:
    """Return the factor by which standard deviations must grow so that one build never differs.

    `multiples` are log ratios of sides of one build in standard deviations, shape (benchmarks,
    comparisons). The largest of R sessions is exceeded with a probability of 1/(R + 1). Above half
    the rate of false discoveries it is extrapolated by a tail of x^-2 and half of the sessions.
    """
    ordered = np.sort(np.nan_to_num(np.abs(multiples)), axis=0)[::-1]
    ranks = np.arange(1, len(ordered) + 1) / len(ordered)
    critical = -stdtrit(max(sessions - 1, 1), FALSE_DISCOVERIES / 2 * ranks)
    largest = float((ordered / critical[:, None]).max())
    rarer = max(1.0, 2 / (FALSE_DISCOVERIES * (sessions + 1)))
    return max(1.0, largest * rarer ** (0.5 / ((size + 1) // 2)))
