"""When a difference of times is called one: many comparisons at once, and a threshold.

What the comparisons share, whatever their samples and tests are: p-values controlled by Benjamini
and Hochberg (J. R. Statist. Soc. B 57, 1995), a smallest ratio that matters, and the verdicts
*same / faster / slower / undecided*.
"""

import numpy as np
import pandas as pd
from scipy import stats

from analysis.stats.estimates import FloatArray

FALSE_DISCOVERIES = 0.05
THRESHOLD = 0.02
SAME, FASTER, SLOWER, UNDECIDED = VERDICTS = ("same", "faster", "slower", "undecided")


def within(ratio: pd.Series, tolerance: float) -> pd.Series:
    """Tell of every ratio whether it is from 1/(1 + tolerance) to 1 + tolerance."""
    limit = 1 + tolerance
    return (ratio <= limit) & (ratio >= 1 / limit)


def p_same(ratios: FloatArray, threshold: float) -> float:
    """Return the p-value of the claim that a ratio is within the threshold, from bootstrap draws.

    It is that of two one-sided tests, ratio ≥ 1 + threshold and ratio ≤ 1/(1 + threshold), by the
    share of draws beyond the limit (Schuirmann, J. Pharmacokin. Biopharm. 15, 1987): small exactly
    where an interval of the ratio lies between the limits.
    """
    limit = 1 + threshold
    beyond = max((ratios >= limit).sum(), (ratios <= 1 / limit).sum())
    return float((1 + beyond) / (1 + len(ratios)))


def evaluated(frame: pd.DataFrame, threshold: float) -> pd.DataFrame:
    """Return comparisons that belong together with q_differs, q_same and verdict.

    `frame` has a row a comparison: ratio, separate (whether nothing but chance speaks against a
    difference), p_differs, p_same.
    """
    frame = frame.assign(q_differs=adjusted(frame["p_differs"]), q_same=adjusted(frame["p_same"]))
    return frame.assign(verdict=verdicts(frame, threshold))


def adjusted(p_values: pd.Series) -> pd.Series:
    """Return Benjamini–Hochberg's p-values; those that are NaN stay so and do not count."""
    known = p_values.dropna()
    values = stats.false_discovery_control(known) if len(known) else known
    return pd.Series(values, known.index, dtype=float).reindex(p_values.index)


def verdicts(frame: pd.DataFrame, threshold: float) -> pd.Series:
    """Return the verdict of every row from its ratio, separate, q_differs and q_same.

    The limits are 1 + threshold and its inverse, so that B is slower than A where A is faster
    than B.
    """
    limit = 1 + threshold
    moved = (frame["q_differs"] <= FALSE_DISCOVERIES) & frame["separate"]
    conditions = {
        SLOWER: moved & (frame["ratio"] > limit),
        FASTER: moved & (frame["ratio"] < 1 / limit),
        SAME: frame["q_same"] <= FALSE_DISCOVERIES,
    }
    chosen = np.select(list(conditions.values()), list(conditions), UNDECIDED)
    return pd.Series(chosen, frame.index)
