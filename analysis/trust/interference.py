"""Whether the traffic of a host's other GPUs slows a GPU: pairs of runs, alone and beside it.

The two runs of a pair follow each other, so the state of GPU and host is that of both, and only
what changes within pairs counts: chance is evaluated by Wilcoxon's signed-rank test of the logarithms
of the ratios (Biometrics Bulletin 1, 1945), the interval resamples pairs.
"""

import numpy as np
import pandas as pd
from scipy import stats

from analysis.data.frames import stacked
from analysis.data.recordings import Source, labelled
from analysis.schema import with_bounds
from analysis.stats.estimates import (
    CONFIDENCE,
    FloatArray,
    bootstrap_paired_ratios,
    grouped,
    percentile_interval,
    seeded,
)
from analysis.stats.significance import THRESHOLD, evaluated, p_same
from base.intervals import interval_ranks, median_interval
from measurement.recording.recording import CELL

QUANTITIES = {"total": "total_s", "h2d": "h2d_s", "kernel": "in_run_kernel_s", "d2h": "d2h_s"}
_TIMES = [*with_bounds("isolated_s"), *with_bounds("with_traffic_s")]
_OUTCOME = ["ratio", "ratio_low", "ratio_high", "p_differs", "p_same"]
_PAIR = ["session", "round"]
_ROWS = [*CELL, "neighbours", "quantity", "pairs", *_TIMES, *_OUTCOME]


def interference_table(found: list[Source]) -> pd.DataFrame:
    """Return one row for every cell, number of neighbours and quantity ("total", "h2d", …).

    isolated_s and with_traffic_s are medians over the pairs, ratio is with_traffic_s over isolated_s. The verdict is
    on the runs beside the traffic, among all comparisons of a GPU. Below 6 pairs there is no
    interval and no p or q (NaN).
    """
    own = ((source, source.own(source.recording.interference)) for source in found)
    return stacked("interference", [labelled(one, compare_pairs(rows)) for one, rows in own])


def compare_pairs(passes: pd.DataFrame) -> pd.DataFrame:
    """Compare the pairs of one GPU; `passes` has the columns of a recording's interference."""
    rows = []
    for key, cell in grouped(passes, CELL):
        alone = cell[cell["neighbours"] == 0].set_index(_PAIR)
        for count, beside in cell[cell["neighbours"] > 0].groupby("neighbours", sort=True):
            beside = beside.set_index(_PAIR)
            rounds = alone.index.intersection(beside.index).sort_values()
            named = dict(zip(CELL, key, strict=True)) | {"neighbours": count}
            for quantity, column in QUANTITIES.items() if len(rounds) else ():
                times = [side.loc[rounds, column].to_numpy(dtype=float) for side in (alone, beside)]
                found = _compared(times[0], times[1], (*key, count, quantity))
                rows.append(named | {"quantity": quantity} | found)
    types = passes[[*CELL, "neighbours"]].dtypes.to_dict() | dict.fromkeys(_OUTCOME, "float64")
    frame = pd.DataFrame(rows, columns=_ROWS).astype(types)
    # Nothing but chance can move the median of pairs: what else could is in both of each.
    return evaluated(frame.assign(separate=True), THRESHOLD)


def _compared(alone: FloatArray, beside: FloatArray, seed: tuple[object, ...]) -> dict[str, object]:
    """Return what the runs of pairs, each of shape (pairs,), say of one quantity."""
    times = [*median_interval(alone, CONFIDENCE), *median_interval(beside, CONFIDENCE)]
    row: dict[str, object] = dict(zip(_TIMES, times, strict=True))
    row |= {"pairs": len(alone), "ratio": float(np.median(beside) / np.median(alone))}
    if interval_ranks(len(alone), CONFIDENCE) is None:
        return row
    draws = bootstrap_paired_ratios(beside, alone, seeded("neighbours", *seed))
    low, high = percentile_interval(draws)
    differences = np.log(beside / alone)
    p_differs = float(stats.wilcoxon(differences).pvalue) if differences.any() else 1.0
    return row | {
        "ratio_low": float(low),
        "ratio_high": float(high),
        "p_differs": p_differs,
        "p_same": p_same(draws, THRESHOLD),
    }
