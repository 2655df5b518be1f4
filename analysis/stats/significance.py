"""Verdicts on differences of times: adjusted p-values and a threshold on the ratio.

p-values are adjusted for many comparisons (Benjamini and Hochberg, J. R. Statist. Soc. B 57, 1995).
A verdict is one of `VERDICTS`.
"""

import numpy as np
import pandas as pd
from scipy import stats

from analysis.stats.estimates import FloatArray

FALSE_DISCOVERIES = 0.05
THRESHOLD = 0.02
SAME, FASTER, SLOWER, UNDECIDED = VERDICTS = ("same", "faster", "slower", "undecided")


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
