"""Verdicts on the benchmarks of two builds, with the variation between the user's sessions."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from analysis.results.variation import (
    SIDES,
    Sessions,
    excess,
    located,
    quantile,
    same_build,
    scale,
    widening,
)
from analysis.stats import between, significance
from analysis.stats.estimates import seeded
from base.errors import StudyError

POWER = 0.95
FEWEST = 5  # repeated sessions for a rate of false verdicts
_RATED = 20  # comparisons of repeated sessions for this rate
_NAMED = 5  # benchmarks in a note


class Builds(NamedTuple):
    """Names of sessions: of build A, of build B, and repeated sessions of one build."""

    a: Sequence[str]
    b: Sequence[str]
    repeats: Sequence[str] = ()


class Rate(NamedTuple):
    """How often *slower* was said of the same build: in comparisons, and of benchmarks."""

    comparisons: int
    slower_comparisons: int
    benchmarks: int
    slower_benchmarks: int

    @property
    def high(self) -> float:
        """Upper bound of the 95 % interval of the share of comparisons (Clopper and Pearson)."""
        interval = binomtest(self.slower_comparisons, self.comparisons).proportion_ci()
        return float(interval.high)


class Comparison(NamedTuple):
    """The verdicts, see `judged`, and what they rest on; `rate`: None below five repetitions."""

    frame: pd.DataFrame
    location: str
    rate: Rate | None
    notes: list[str]


def compare(table: pd.DataFrame, builds: Builds, threshold: float) -> Comparison:
    """Return the verdict on each benchmark that A and B have.

    `table` has benchmark, session, sample and time_s. Raise StudyError if A and B have no benchmark
    in common.
    """
    zero = table.loc[table["time_s"] == 0, "benchmark"].unique()
    table = table[~table["benchmark"].isin(zero)]
    a, b = ({*table.loc[table["session"].isin(side), "benchmark"]} for side in builds[:2])
    if not a & b:
        raise StudyError("A and B: no benchmark in common with times above 0; names must be equal")
    notes = [
        f"{text}: {', '.join(sorted(names)[:_NAMED])}{' ...' * (len(names) > _NAMED)}"
        for text, names in {"only in A": a - b, "only in B": b - a, "time 0": {*zero}}.items()
        if names
    ]
    sessions = located(table[table["benchmark"].isin(a & b)])
    location, frame = judged(sessions, builds, threshold)
    return Comparison(frame, location, rate(sessions, builds, threshold), notes)


def judged(
    sessions: dict[str, Sessions], builds: Builds, threshold: float
) -> tuple[str, pd.DataFrame]:
    """Return the location that is compared, and a row per benchmark, sorted by benchmark.

    Columns: those of `tested`, of `significance.with_intervals`, and found: the smallest ratio of a
    slower B that is called so with a probability of 95 %, if it is the only one. NaN: the variation
    is unknown, because fewer than two sessions were repeated.
    """
    location, frame, parts = tested(sessions, builds, threshold)
    frame = significance.with_intervals(frame, threshold, parts, np.log(frame["ratio"]))
    needed = between.exceeded(parts, significance.FALSE_DISCOVERIES / 2 / len(frame))
    needed = needed.clip(lower=np.log(1 + threshold / 2))
    found = np.exp(needed + between.exceeded(parts, 1 - POWER))
    return location, frame.assign(found=found).rename_axis("benchmark").reset_index()


def tested(
    sessions: dict[str, Sessions], builds: Builds, threshold: float
) -> tuple[str, pd.DataFrame, pd.DataFrame]:
    """Return the location, the verdicts by benchmark, and variances as `between.variances`.

    Compared is the location that varies least between the repeated sessions. The columns of the
    verdicts are ratio B/A, margin, those of `significance.evaluated`, and per side sessions_a,
    samples_a and time_a_s.
    """
    repeats = builds.repeats or builds.a
    is_even = len(builds.a) == len(builds.b)  # low quantiles depend on the number of sessions
    shares = {name: share if is_even else 0.5 for name, share in SIDES.items()}
    size = min(len(builds.a), len(builds.b))
    known = {name: part.of(repeats) for name, part in sessions.items()}
    ratios = {n: same_build(part.log_s.to_numpy(), size, shares[n]) for n, part in known.items()}
    deviations = {name: scale(drawn) for name, drawn in ratios.items()}
    location = min(SIDES, key=lambda name: np.nan_to_num(quantile(deviations[name], 0.5)))
    deviation, usual = deviations[location], known[location]
    factor = widening(ratios[location] / deviation[:, None], len(repeats))
    sides = [sessions[location].of(names) for names in builds[:2]]
    variance = (factor * deviation) ** 2 * excess(usual, sides)
    frame = pd.DataFrame(index=usual.log_s.index)
    for letter, side in zip("ab", sides, strict=True):
        frame[f"sessions_{letter}"] = side.log_s.count(axis=1)
        frame[f"samples_{letter}"] = side.samples.sum(axis=1).astype(int)
        frame[f"time_{letter}_s"] = np.exp(quantile(side.log_s.to_numpy(), shares[location]))
    frame = frame.assign(margin=threshold, ratio=frame["time_b_s"] / frame["time_a_s"])
    noise = sum(quantile(side.noise.to_numpy(), 0.5) / side.log_s.count(axis=1) for side in sides)
    parts = pd.DataFrame({"noise": np.minimum(noise, variance)})
    parts = parts.assign(between=variance - parts["noise"], outlier=0.0, outliers=0.0)
    parts["freedom"] = usual.log_s.count(axis=1).clip(lower=2) - 1
    distance = np.log(frame["ratio"])
    frame = frame.assign(**significance.tests(distance, frame["margin"], parts, distance))
    return location, significance.evaluated(frame, threshold / 2), parts


def rate(sessions: dict[str, Sessions], builds: Builds, threshold: float) -> Rate | None:
    """Return how often repeated sessions are called slower than others, drawn at random.

    Each comparison uses the variation between the remaining repeated sessions.
    """
    count = len(builds.repeats)
    if count < FEWEST:
        return None
    size = max(1, min(len(builds.a), len(builds.b), count // 4))
    rng, slower, rows = seeded("rate", count, size), [], 0
    for _ in range(_RATED):
        order = [builds.repeats[at] for at in rng.permutation(count)]
        sides = Builds(order[:size], order[size : 2 * size], order[2 * size :])
        _, frame, _ = tested(sessions, sides, threshold)
        rows += int(frame["ratio"].notna().sum())
        slower.append(int((frame["verdict"] == significance.SLOWER).sum()))
    return Rate(_RATED, sum(map(bool, slower)), rows, sum(slower))
