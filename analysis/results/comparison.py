"""Verdicts on the benchmarks of two builds, with the variation between the user's sessions."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from analysis.results.variation import Located, Variation, of_side, steadiest, variation
from analysis.stats import between, significance
from base.errors import StudyError

POWER = 0.95
_NAMED = 5  # benchmarks in a note
_MOST = 20  # comparisons of repeated sessions, for the rate of false verdicts
FEWEST = 5  # repeated sessions for this rate


class Builds(NamedTuple):
    """Names of sessions: of build A, of build B, and repeated sessions of one build.

    Sessions of A may be among the repeated ones.
    """

    a: Sequence[str]
    b: Sequence[str]
    repeats: Sequence[str] = ()

    @property
    def alike(self) -> list[list[str]]:
        """Groups of sessions of one build, each session in one group."""
        others = [[each for each in side if each not in self.repeats] for side in (self.a, self.b)]
        return [group for group in ([*self.repeats], *others) if group]


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
    location, at, frame = decided(table[table["benchmark"].isin(a & b)], builds, threshold)
    return Comparison(frame, location, same_build(at, location, builds, threshold), notes)


def decided(
    table: pd.DataFrame, builds: Builds, threshold: float
) -> tuple[str, Located, pd.DataFrame]:
    """Return the location that is compared, its values, and the verdicts, see `judged`."""
    location, at = steadiest(table, builds.alike)
    every = [*dict.fromkeys([*builds.a, *builds.b, *builds.repeats])]
    at = Located(*(part.reindex(columns=every) for part in at))
    return location, at, judged(at, location, builds, threshold, variation(at, builds.alike))


def judged(
    at: Located, location: str, builds: Builds, threshold: float, known: Variation
) -> pd.DataFrame:
    """Return a row per benchmark that A and B have, sorted by benchmark.

    Columns: benchmark; per side sessions_a, samples_a and time_a_s; ratio B/A, margin, those of
    `significance.evaluated` and `significance.with_intervals`, and found: the smallest ratio of a
    slower B that is called so with a probability of 95 %, if it is the only one. NaN: the variation
    is unknown.
    """
    fewest = min(len(builds.a), len(builds.b))
    own = [at.of(sessions) for sessions in (builds.a, builds.b)]
    a, b = (of_side(each, location, fewest, known.outliers) for each in own)
    columns = {"sessions_a": a["sessions"], "sessions_b": b["sessions"]}
    columns |= {f"samples_{n}": each.samples.sum(axis=1) for n, each in zip("ab", own, strict=True)}
    columns |= {"time_a_s": np.exp(a["log_s"]), "time_b_s": np.exp(b["log_s"])}
    frame = pd.DataFrame(columns).assign(margin=threshold, ratio=np.exp(b["log_s"] - a["log_s"]))
    shares = a["share"] + b["share"]
    noise = sum(e.noise.median(axis=1) * s["share"] for e, s in zip(own, (a, b), strict=True))
    sessions_only = (known.variance - known.noise).clip(lower=0) * shares
    parts = {"between": sessions_only, "noise": noise, "outlier": known.outlier}
    parts |= {"outliers": 1 - (1 - a["far"]) * (1 - b["far"]), "freedom": known.freedom}
    in_both = frame["ratio"].notna()
    frame, parts = frame[in_both], pd.DataFrame(parts)[in_both]
    distance = np.log(frame["ratio"])
    frame = frame.assign(**significance.tests(distance, frame["margin"], parts, distance))
    frame = significance.evaluated(frame, threshold / 2)
    frame = significance.with_intervals(frame, threshold, parts, distance)
    least = np.log(1 + threshold / 2)
    needed = between.exceeded(parts, significance.FALSE_DISCOVERIES / 2 / max(len(frame), 1))
    found = np.exp(needed.clip(lower=least) + between.exceeded(parts, 1 - POWER))
    return frame.assign(found=found).rename_axis("benchmark").reset_index()


def same_build(at: Located, location: str, builds: Builds, threshold: float) -> Rate | None:
    """Return how often a repeated session is called slower than the one before it.

    Each comparison uses the variation between the other sessions.
    """
    alike = max(builds.alike, key=len)
    if len(alike) < FEWEST:
        return None
    counts = []
    for number in range(min(len(alike), _MOST)):
        pair = [alike[number - 1], alike[number]]
        rest = [[each for each in group if each not in pair] for group in builds.alike]
        known, sides = variation(at, [*filter(None, rest)]), Builds(pair[:1], pair[1:])
        frame = judged(at, location, sides, threshold, known)
        counts.append((len(frame), int((frame["verdict"] == significance.SLOWER).sum())))
    slower = [count for _, count in counts]
    return Rate(len(counts), sum(map(bool, slower)), sum(n for n, _ in counts), sum(slower))
