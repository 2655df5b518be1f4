"""The effect of traffic on a host's other GPUs, from pairs of runs without and with traffic.

The two runs of a pair are consecutive and share the state of GPU and host. Wilcoxon's signed-rank
test (Biometrics Bulletin 1, 1945) is applied to the logarithms of the ratios of pairs; the
bootstrap interval resamples pairs.
"""

import numpy as np
import pandas as pd
from scipy import stats

from analysis.data.frames import stacked
from analysis.data.recordings import MeasuredSource, labelled
from analysis.schema import with_bounds
from analysis.stats import estimates
from analysis.stats.estimates import CONFIDENCE, FloatArray, grouped, percentile_interval, seeded
from analysis.stats.significance import THRESHOLD, evaluated, p_same
from base.intervals import interval_ranks, median_interval
from measurement.recording.recording import CELL

QUANTITIES = {"total": "total_s", "h2d": "h2d_s", "kernel": "in_run_kernel_s", "d2h": "d2h_s"}
_TIMES = [*with_bounds("isolated_s"), *with_bounds("with_traffic_s")]
_OUTCOME = ["ratio", "ratio_low", "ratio_high", "p_differs", "p_same"]
_PAIR = ["session", "round"]
_ROWS = [*CELL, "neighbours", "quantity", "pairs", *_TIMES, *_OUTCOME]


def interference_table(sources: list[MeasuredSource]) -> pd.DataFrame:
    """Return one row per cell, number of neighbours and quantity of `QUANTITIES`.

    isolated_s and with_traffic_s are medians over the pairs; ratio is with_traffic_s divided by
    isolated_s. Verdicts are adjusted over all comparisons of a GPU. Below 6 pairs, interval, p and
    q are NaN.
    """
    runs = ((source, source.own(source.recording.neighbours)) for source in sources)
    return stacked("interference", [labelled(one, compare_pairs(rows)) for one, rows in runs])


def compare_pairs(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the comparison of one GPU's pairs; `runs` has the columns of neighbours.csv."""
    rows = []
    for key, cell in grouped(runs, CELL):
        isolated = cell[cell["neighbours"] == 0].set_index(_PAIR)
        for count, traffic in cell[cell["neighbours"] > 0].groupby("neighbours", sort=True):
            sides = (isolated, traffic.set_index(_PAIR))
            rounds = isolated.index.intersection(sides[1].index).sort_values()
            named = dict(zip(CELL, key, strict=True)) | {"neighbours": count}
            for quantity, column in QUANTITIES.items() if len(rounds) else ():
                times = [side.loc[rounds, column].to_numpy(dtype=float) for side in sides]
                compared = _compared(times[0], times[1], *key, count, quantity)
                rows.append(named | {"quantity": quantity} | compared)
    types = runs[[*CELL, "neighbours"]].dtypes.to_dict() | dict.fromkeys(_OUTCOME, "float64")
    frame = pd.DataFrame(rows, columns=_ROWS).astype(types)
    return evaluated(frame, THRESHOLD)


def _compared(isolated: FloatArray, traffic: FloatArray, *seed: object) -> dict[str, object]:
    """Return the columns of one quantity, from the times of paired runs: (pairs,) each."""
    times = [*median_interval(isolated, CONFIDENCE), *median_interval(traffic, CONFIDENCE)]
    row: dict[str, object] = dict(zip(_TIMES, times, strict=True))
    row |= {"pairs": len(isolated), "ratio": float(np.median(traffic) / np.median(isolated))}
    if interval_ranks(len(isolated), CONFIDENCE) is None:
        return row
    draws = estimates.bootstrap_paired_ratios(traffic, isolated, seeded("neighbours", *seed))
    low, high = map(float, percentile_interval(draws))
    differences = np.log(traffic / isolated)
    p_differs = float(stats.wilcoxon(differences).pvalue) if differences.any() else 1.0
    row |= {"ratio_low": low, "ratio_high": high}
    return row | {"p_differs": p_differs, "p_same": p_same(draws, THRESHOLD)}
