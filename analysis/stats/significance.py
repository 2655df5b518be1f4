"""Verdicts on differences of times: adjusted p-values and a threshold on the ratio.

p-values are adjusted for many comparisons (Benjamini and Hochberg, J. R. Statist. Soc. B 57, 1995).
A verdict is one of `VERDICTS`. `tests` and `with_intervals` take the `variances` of log ratios that
`analysis.stats.between` returns, whatever sessions they were estimated from.
"""

from collections.abc import Iterable
from xml.etree.ElementTree import Element, SubElement, tostring

import numpy as np
import pandas as pd
from scipy import stats

from analysis.stats import between
from analysis.stats.estimates import FloatArray

FALSE_DISCOVERIES = 0.05
THRESHOLD = 0.02
SAME, FASTER, SLOWER, UNDECIDED = VERDICTS = ("same", "faster", "slower", "undecided")


def exit_status(verdicts: pd.Series) -> int:
    """Return 1 if any verdict is slower, 3 if fewer than half are decided, else 0."""
    decided = verdicts.isin([SAME, FASTER, SLOWER])
    return 1 if (verdicts == SLOWER).any() else 3 * int(decided.mean() < 0.5)


def slower(ratio: float) -> str:
    """Return how much slower B is, as text for this ratio B/A."""
    return f"{ratio - 1:.1%} slower in B"


def junit(frame: pd.DataFrame, cases: Iterable[tuple[str, str]], summary: str) -> str:
    """Return JUnit XML: one test per row, named by class and name; undecided tests are skipped."""
    failed = frame["verdict"] == SLOWER
    skipped = ~frame["verdict"].isin([SAME, FASTER, SLOWER])
    tally = {"tests": len(frame), "failures": failed.sum(), "skipped": skipped.sum()}
    suite = Element("testsuite", {"name": "gemm-study compare"} | {k: f"{tally[k]}" for k in tally})
    rows = zip(cases, frame["verdict"], frame["ratio"], failed, skipped, strict=True)
    for (kind, name), verdict, ratio, fails, skips in rows:
        printable = "".join(c if c.isprintable() else "?" for c in name)  # as XML demands
        case = SubElement(suite, "testcase", {"classname": kind, "name": printable})
        if fails:
            SubElement(case, "failure", {"message": slower(ratio)})
        if skips:
            SubElement(case, "skipped", {"message": verdict})
    SubElement(suite, "system-out").text = summary
    return tostring(suite, "unicode", xml_declaration=True)


def counts(verdicts: pd.Series, *more: str) -> str:
    """Return how often each verdict occurs, as text; those in `more` only if they occur."""
    names = [*VERDICTS, *(name for name in more if (verdicts == name).any())]
    return ", ".join(f"{(verdicts == name).sum()} {name}" for name in names)


def needed(frame: pd.DataFrame) -> list[str]:
    """Return lines with the samples and sessions that undecided rows of `with_intervals` need."""
    counts = {name: frame[f"{name}_needed"].dropna() for name in ("samples", "sessions")}
    text = "{} undecided times need more {}, {:.0f} per side for half"
    return [text.format(len(of), name, of.median()) for name, of in counts.items() if len(of)]


def within(ratio: pd.Series, tolerance: float) -> pd.Series:
    """Return whether each ratio is from 1/(1 + tolerance) to 1 + tolerance."""
    limit = 1 + tolerance
    return (ratio <= limit) & (ratio >= 1 / limit)


def p_same(ratios: FloatArray, threshold: float) -> float:
    """Return the p-value of the hypothesis that a ratio is beyond the threshold, from draws.

    Two one-sided tests, ratio ≥ 1 + threshold and ratio ≤ 1/(1 + threshold), use the share of
    bootstrap draws beyond the limit (Schuirmann, J. Pharmacokin. Biopharm. 15, 1987). The p-value
    is small if an interval of the ratio is between the limits.
    """
    limit = 1 + threshold
    beyond = max((ratios >= limit).sum(), (ratios <= 1 / limit).sum())
    return float((1 + beyond) / (1 + len(ratios)))


def evaluated(frame: pd.DataFrame, threshold: float) -> pd.DataFrame:
    """Return `frame` with q_differs, q_same and verdict, adjusted over all its rows.

    `frame` has one row per comparison: ratio, p_differs and p_same.
    """
    frame = frame.assign(q_differs=adjusted(frame["p_differs"]), q_same=adjusted(frame["p_same"]))
    return frame.assign(verdict=verdicts(frame, threshold))


def adjusted(p_values: pd.Series) -> pd.Series:
    """Return p-values adjusted by Benjamini and Hochberg; NaN stays NaN and does not count."""
    tested = p_values.dropna()
    values = stats.false_discovery_control(tested) if len(tested) else tested
    return pd.Series(values, tested.index, dtype=float).reindex(p_values.index)


def verdicts(frame: pd.DataFrame, threshold: float) -> pd.Series:
    """Return the verdict of every row from its ratio, q_differs and q_same.

    The limits 1 + threshold and its inverse make the verdict symmetric in A and B.
    """
    limit = 1 + threshold
    moved = frame["q_differs"] <= FALSE_DISCOVERIES
    conditions = {
        SLOWER: moved & (frame["ratio"] > limit),
        FASTER: moved & (frame["ratio"] < 1 / limit),
        SAME: frame["q_same"] <= FALSE_DISCOVERIES,
    }
    chosen = np.select(list(conditions.values()), list(conditions), UNDECIDED)
    return pd.Series(chosen, frame.index)


def tests(
    distance: pd.Series, margin: pd.Series, parts: pd.DataFrame, rest: pd.Series
) -> dict[str, pd.Series]:
    """Return p_differs and p_same of each log ratio `distance`.

    p_differs tests `rest`, the part of the log ratio that is not explained by hardware.
    """
    return {
        "p_differs": 2 * between.beyond(rest.abs(), parts),
        "p_same": between.beyond(np.log(1 + margin) - distance.abs(), parts),
    }


def with_intervals(
    frame: pd.DataFrame, threshold: float, parts: pd.DataFrame, rest: pd.Series
) -> pd.DataFrame:
    """Return the rows with intervals, and what a verdict would need: samples or sessions.

    `frame` has ratio, margin and verdict and, for each side, samples and sessions. New columns: the
    95 % interval ratio_low to ratio_high over samples and sessions; samples_needed and
    sessions_needed on each side, either of which would be enough to decide.
    """
    distance = np.log(frame["ratio"])
    half, now = between.half_interval(parts), parts["between"] + parts["noise"]
    moved = rest.abs().where(rest.abs() > np.log(1 + threshold / 2), 0)
    largest = np.maximum(np.log(1 + frame["margin"]) - distance.abs(), moved)
    wanted = now * (largest / half) ** 2  # with this variance, the larger distance is significant
    fewest = frame[["samples_a", "samples_b"]].min(axis=1)
    samples = np.ceil(fewest * parts["noise"] / (wanted - parts["between"]))
    per_session = (1 / frame["sessions_a"] + 1 / frame["sessions_b"]) / 2
    sessions = np.ceil(now / per_session / wanted)
    undecided = ~frame["verdict"].isin([SAME, FASTER, SLOWER])
    by_samples = parts["between"] < wanted / 2
    return frame.assign(
        ratio_low=np.exp(distance - half),
        ratio_high=np.exp(distance + half),
        samples_needed=samples.where(undecided & by_samples),
        sessions_needed=sessions.where(undecided & ~by_samples & (wanted > 0)),
    )
