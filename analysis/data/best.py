"""Choosing the fastest of some candidates, or of the candidates that two sides share.

A candidate is an implementation with its block size and threads, at one size N and with one host
memory. Minima over different candidates cannot be compared. Therefore every *fastest* of the tables
is chosen here, and two sides are compared only over the candidates that were measured on both of
them, with the same timing.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from base.errors import StudyError

CANDIDATE = ["variant", "block_size", "threads", "n", "host_memory"]


def fastest(
    cells: pd.DataFrame, time: str, by: Sequence[str] = (), most: bool = False
) -> pd.DataFrame:
    """Return the row with the least `time` in each group of `by`, sorted by group; the index stays.

    The new column candidates counts the rows of the group. Rows without a time are not candidates.
    With `most`, the row with the largest value is chosen instead, for example of a throughput.
    """
    timed = cells[cells[time].notna()]
    if timed.empty:
        return timed.assign(candidates=0)
    numbered = timed.reset_index(drop=True)
    groups = numbered.groupby(list(by) or np.zeros(len(timed)))[time]
    chosen = groups.idxmax() if most else groups.idxmin()
    return timed.iloc[chosen.to_numpy()].assign(candidates=groups.size().to_numpy())


def fastest_of_both(
    a: pd.DataFrame, b: pd.DataFrame, time: str, by: Sequence[str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return `fastest` of both sides over common candidates, by group; raise StudyError if none."""
    sides = [side[side[time].notna()].reset_index(names="row") for side in (a, b)]
    both = sides[0][[*CANDIDATE, "row"]].merge(
        sides[1][[*CANDIDATE, "row"]], on=CANDIDATE, suffixes=("_a", "_b")
    )
    if both.empty:
        raise StudyError(
            "the two sides share no candidate to compare; choose sides with a common one"
        )
    chosen = (
        fastest(side.loc[both[row]], time, by)
        for side, row in zip((a, b), ("row_a", "row_b"), strict=True)
    )
    first, second = chosen
    return first, second
