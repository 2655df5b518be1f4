"""Verdicts on the benchmarks of two builds, with the variation between the user's sessions.

Repeated sessions of one build are divided at random into sides as large as those compared, so no
model is needed of disturbed sessions, of effects common to all benchmarks, or of low quantiles.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from textwrap import shorten
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from analysis.stats import between, significance
from analysis.stats.estimates import FloatArray, seeded
from analysis.stats.significance import FALSE_DISCOVERIES
from base.errors import StudyError

# What represents the samples of a session, and the quantile that represents the sessions of a side.
# Disturbances lengthen times, so low values vary less on a busy machine.
LOCATIONS = {"median": 0.5, "min": 0.25}
NORMAL = 1.4826  # standard deviation of normal values over their median distance
POWER, FEWEST = 0.95, 5  # of a slowdown that is found; repeated sessions for rates
_COMPARISONS, _DRAWS = 20, 200  # of repeated sessions: for this rate, and for their variation
_LEAST, _TIES = 1e-6, 1 / 30  # least scale: of a time, of the largest difference if most are 0


class Builds(NamedTuple):
    """Names of sessions: of A, of B, and repeated ones of one build, also some of A."""

    a: Sequence[str]
    b: Sequence[str]
    repeats: Sequence[str] = ()


class Sessions(NamedTuple):
    """Tables of a row per benchmark and a column per session; NaN: not measured.

    `spread` is log(median/minimum), `noise` the variance of `log_s` because of few samples.
    """

    log_s: pd.DataFrame
    spread: pd.DataFrame
    noise: pd.DataFrame
    samples: pd.DataFrame

    def of(self, names: Sequence[str]) -> "Sessions":
        """Return the columns of these sessions."""
        return Sessions(*(table.reindex(columns=[*names]) for table in self))


class Comparison(NamedTuple):
    """Verdicts of `judged`, the location compared, counts of `same_build`, and notes."""

    verdicts: pd.DataFrame
    location: str
    same_build_slower: list[int]
    notes: list[str]


def compare(table: pd.DataFrame, builds: Builds, threshold: float) -> Comparison:
    """Return the verdict on each benchmark that A and B have.

    `table` has benchmark, session and time_s. Raise StudyError if they have none in common.
    """
    zero = {*table.loc[table["time_s"] == 0, "benchmark"]}
    table = table[~table["benchmark"].isin(zero)]
    a, b = ({*table.loc[table["session"].isin(side), "benchmark"]} for side in builds[:2])
    if not a & b:
        raise StudyError("A and B: no benchmark in common with times above 0; names must be equal")
    missing = {"only in A": sorted(a - b), "only in B": sorted(b - a), "time 0": sorted(zero)}
    notes = [f"{text}: {shorten(', '.join(names), 90)}" for text, names in missing.items() if names]
    sessions = located(table[table["benchmark"].isin(a & b)])
    location, verdicts = judged(sessions, builds, threshold)
    short = 3 - min(map(len, builds[:2]))
    if short > 0 and (verdicts["verdict"] == significance.SLOWER).mean() > 0.5:
        text = f"most are slower, as in a disturbed session: up to 1 of {len(builds.repeats) + 1}"
        notes.append(f"{text} comparisons; confirm with {short} more sessions of each build")
    slower = same_build({location: sessions[location]}, builds, threshold)
    return Comparison(verdicts, location, slower, notes)


def located(table: pd.DataFrame) -> dict[str, Sessions]:
    """Return the sessions by location, for samples with positive times."""
    logs = table.assign(time_s=np.log(table["time_s"]))
    groups = logs.groupby(["benchmark", "session"], observed=True)["time_s"]
    measured = groups.agg([*LOCATIONS, "var", "size"]).unstack("session")
    noise = measured["var"].fillna(0) / measured["size"] * np.pi / 2  # of a median, if normal
    rest = measured["median"] - measured["min"], noise, measured["size"]
    return {location: Sessions(measured[location], *rest) for location in LOCATIONS}


def judged(
    sessions: Mapping[str, Sessions], builds: Builds, threshold: float
) -> tuple[str, pd.DataFrame]:
    """Return the location that is compared, and a row per benchmark, sorted by benchmark.

    Columns: those of `tested`, of `significance.with_intervals`, and found: the smallest ratio that
    is called slower with a probability of 95 %, if it is the only one (NaN: variation unknown).
    """
    location, frame, parts = tested(sessions, builds, threshold)
    frame = significance.with_intervals(frame, threshold, parts, np.log(frame["ratio"]))
    significant = between.exceeded(parts, FALSE_DISCOVERIES / 2 / len(frame))
    least = significant.clip(lower=np.log(1 + threshold / 2))
    found = np.exp(least + between.exceeded(parts, 1 - POWER)).where(parts.freedom >= FEWEST - 1)
    return location, frame.assign(found=found).rename_axis("benchmark").reset_index()


def tested(
    sessions: Mapping[str, Sessions], builds: Builds, threshold: float
) -> tuple[str, pd.DataFrame, pd.DataFrame]:
    """Return the location, the verdicts by benchmark, and variances as `between.variances`.

    Compared is the location that varies least between the repeated sessions, or without between
    those of A. Columns: ratio B/A, margin, per side sessions_a, samples_a and time_a_s, verdicts.
    """
    repeats, sizes = builds.repeats or builds.a, [len(side) for side in builds[:2]]
    # A low quantile depends on the number of sessions, so it needs sides of equal size.
    shares = {name: LOCATIONS[name] if sizes[0] == sizes[1] else 0.5 for name in sessions}
    repeated = {name: part.of(repeats) for name, part in sessions.items()}
    ratios = {name: drawn(repeated[name], min(sizes), share) for name, share in shares.items()}
    deviations = {name: scale(values) for name, values in ratios.items()}
    location = min(repeated, key=lambda name: np.nan_to_num(quantile(deviations[name], 0.5)))
    usual, deviation = repeated[location], deviations[location]
    multiples = ratios[location] / deviation[:, None]
    deviation = deviation * widening(multiples, len(repeats), min(sizes))
    sides = [sessions[location].of(names) for names in builds[:2]]
    variance = deviation**2 * excess(usual, sides)
    frame, noise = pd.DataFrame({"margin": threshold}, usual.log_s.index), 0
    for letter, side in zip("ab", sides, strict=True):
        count, times = side.log_s.count(axis=1), quantile(side.log_s.to_numpy(), shares[location])
        frame[f"sessions_{letter}"], frame[f"time_{letter}_s"] = count, np.exp(times)
        frame[f"samples_{letter}"] = side.samples.sum(axis=1).astype(int)
        noise = noise + quantile(side.noise.to_numpy(), 0.5) / count
    frame["ratio"] = frame["time_b_s"] / frame["time_a_s"]
    parts = pd.DataFrame({"noise": np.minimum(noise, variance), "outlier": 0.0, "outliers": 0.0})
    parts["between"] = variance - parts["noise"]
    parts["freedom"] = usual.log_s.count(axis=1).clip(lower=2) - 1
    distance = np.log(frame["ratio"])
    frame = frame.assign(**significance.tests(distance, frame["margin"], parts, distance))
    return location, significance.evaluated(frame, threshold / 2), parts


def same_build(sessions: Mapping[str, Sessions], builds: Builds, threshold: float) -> list[int]:
    """Return how many benchmarks are slower in comparisons of repeated sessions, drawn at random.

    Each uses the variation between the remaining sessions. It is empty below `FEWEST` sessions.
    """
    count = len(builds.repeats)
    if count < FEWEST:
        return []
    size = max(1, min(len(builds.a), len(builds.b), count // 4))
    rng, slower = seeded("same build", count, size), []
    for _ in range(_COMPARISONS):
        order = [builds.repeats[at] for at in rng.permutation(count)]
        sides = Builds(order[:size], order[size : 2 * size], order[2 * size :])
        verdicts = tested(sessions, sides, threshold)[1]["verdict"]
        slower.append(int((verdicts == significance.SLOWER).sum()))
    return slower


def quantile(values: FloatArray, share: float) -> FloatArray:
    """Return a quantile along the last axis, without NaN; NaN if there are no values."""
    if values.shape[-1] < 2:
        return values[..., 0] if values.shape[-1] else np.full(values.shape[:-1], np.nan)
    ordered = np.sort(values, axis=-1)  # NaN last
    place = share * np.maximum(np.isfinite(ordered).sum(axis=-1, keepdims=True) - 1, 0)
    ends = (to(place).astype(int) for to in (np.floor, np.ceil))
    low, high = (np.take_along_axis(ordered, end, axis=-1) for end in ends)
    return np.asarray((low + place % 1 * (high - low))[..., 0])


def drawn(known: Sessions, size: int, share: float) -> FloatArray:
    """Return log ratios of sides of `size` sessions of one build, shape (benchmarks, draws).

    `share` is the quantile that represents a side, which is at most half of the sessions.
    """
    log_s = known.log_s.to_numpy()
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
    """Return the standard deviation of differences by benchmark, without regard to outliers.

    It is at least that of half of the benchmarks, because few sessions may agree by chance.
    """
    typical, largest = (quantile(np.abs(differences), share) for share in (0.5, 1))
    typical = NORMAL * typical
    return np.maximum(np.maximum(typical, quantile(typical, 0.5)), _TIES * largest + _LEAST)


def widening(multiples: FloatArray, sessions: int, size: int) -> float:
    """Return the factor on standard deviations that leaves no comparison of one build significant.

    `multiples` are its log ratios in standard deviations, shape (benchmarks, comparisons). The
    largest of R sessions is exceeded with a probability of 1/(R + 1). Above half the rate of false
    discoveries it is extrapolated: sessions have a tail of x^-2, half of a side must be disturbed.
    """
    ordered = np.sort(np.nan_to_num(np.abs(multiples)), axis=0)[::-1]
    ranks = np.arange(1, len(ordered) + 1) / len(ordered)
    critical = -stdtrit(max(sessions - 1, 1), FALSE_DISCOVERIES / 2 * ranks)
    largest = float((ordered / critical[:, None]).max())
    rarer = max(1.0, 2 / (FALSE_DISCOVERIES * (sessions + 1)))
    return max(1.0, largest * rarer ** (0.5 / ((size + 1) // 2)))


def excess(known: Sessions, sides: Sequence[Sessions]) -> FloatArray:
    """Return how much more the sides vary than the known sessions, as a ratio of variances >= 1.

    The samples of a session show it by benchmark, the sessions of a side in half of the benchmarks.
    So a machine that is busier than in the known sessions makes verdicts undecided.
    """
    usual = _one_session([known])
    calm, *busy = (usual + quantile(part.spread.to_numpy(), 0.5) ** 2 for part in (known, *sides))
    within = np.mean([np.fmax(1, spread / calm) for spread in busy], axis=0)
    is_single = min(side.log_s.shape[1] for side in sides) < 2
    return within if is_single else np.fmax(within, quantile(_one_session(sides) / usual, 0.5))


def _one_session(groups: Sequence[Sessions]) -> FloatArray:
    """Return the variance of one session by benchmark, from the pairs of sessions of each group."""
    sessions = [group.log_s.to_numpy().T for group in groups]
    pairs = [one - other for side in sessions for one, other in combinations(side, 2)]
    return scale(np.reshape(pairs, (-1, sessions[0].shape[1])).T) ** 2 / 2
