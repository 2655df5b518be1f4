"""GPUs against each other: the fastest way on each, beside that on the first GPU."""

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.data.cells import of_sizes
from analysis.data.frames import stacked
from analysis.data.recordings import Source, with_gpu
from analysis.domain import IN_RUN, NO_INTERVAL, ONE_SESSION
from analysis.schema import with_bounds
from analysis.stats.estimates import DRAWS, FloatArray, IntArray, ratio_intervals, seeded
from analysis.stats.sessions import Known
from analysis.stats.significance import FASTER, SAME, SLOWER, THRESHOLD, UNDECIDED

_KEY = ["n", "quantity", "host_memory"]
# Between the events of a run lie some 10 µs of the host.
_LONG_S = 1e-3
# What an interval of a ratio rests on: both GPUs were measured in the same sessions; each has
# several; of the one that has a single one it is known from others how far another would be.
TOGETHER, SEVERAL, FROM_OTHERS = "same sessions", "several sessions", "deviation of other cards"


def gpu_comparison_table(
    sources: list[Source], summary: pd.DataFrame, sessions: pd.DataFrame
) -> pd.DataFrame:
    """Return the fastest way on every GPU at each of its orders, over that on the first GPU.

    Quantity "total" holds the copies, "kernel" does not; the library's kernel takes part. Of GPUs
    that were recorded with other variants than the first, what all have in common counts. Where
    kernels of some were timed alone, those timed in a run count where the host in them does not
    matter. `first` is the first GPU of `sources` that took the same order, `ratio` the GPU's time
    over its time (empty for itself), with a 95 % interval of independent bootstrap draws of both
    medians over their sessions. That of a GPU with a single session is widened by the deviation
    between sessions that is known of other GPUs (`sessions`, the table of that name); `basis` says
    what the interval rests on. The verdict is on the interval, and withheld where it is within
    `ONE_SESSION`. `summary` is `analysis.data.recordings.summary_table`.
    """
    gpus = with_gpu(sources)
    measured = summary[summary["gpu"].isin([source.label for source in gpus])]
    having = measured.groupby("variant")["gpu"].nunique()
    common = having.index[having == measured["gpu"].nunique()]
    summary = measured[measured["variant"].isin(common)]
    if summary["kernel_timing"].nunique() > 1:
        short = (summary["kernel_timing"] == IN_RUN) & (summary["kernel_s"] < _LONG_S)
        summary = summary.assign(kernel_s=summary["kernel_s"].mask(short.fillna(False)))
    fastest = [ways for source in gpus for ways in _fastest(source, summary)]
    if not fastest:
        return stacked("gpu_comparison", [])
    rows = pd.concat([ways for ways, _ in fastest], ignore_index=True)
    draws = np.concatenate([drawn for _, drawn in fastest])
    place = rows.reset_index().groupby(_KEY)["index"].transform("first").to_numpy()
    for name, of in (("first", "gpu"), ("first_sessions", "sessions")):
        rows[name] = rows[of].to_numpy()[place]
    others = place != rows.index.to_numpy()
    rows["ratio"] = (rows["time_s"] / rows["time_s"].to_numpy()[place]).where(others)
    works = rows["host_s"].notna() & (rows["quantity"] == "total")
    known = Known.of(sessions).at(rows.assign(host_work=works))
    rows["basis"] = _bases(rows, place, known["variance"].notna().to_numpy())
    apart = (rows["basis"] == FROM_OTHERS).to_numpy()
    wider = draws * _deviations(rows, known)
    of_both = np.where(apart[:, None], wider / wider[place], draws / draws[place])
    bounds = ratio_intervals(np.where(others[:, None], of_both, np.nan), np.ones(1))
    rows["ratio_low"], rows["ratio_high"] = bounds
    found = zip(others, rows["basis"], *bounds, strict=True)
    rows["verdict"] = [
        None if not other else ONE_SESSION if basis == ONE_SESSION else verdict(low, high)
        for other, basis, low, high in found
    ]
    rows["basis"] = rows["basis"].where(others)
    return stacked("gpu_comparison", [rows])


def _bases(rows: pd.DataFrame, place: IntArray, known: npt.NDArray[np.bool_]) -> list[str]:
    """Return what the ratio of each row to that of `place` rests on.

    `known` tells of which rows it is known how far sessions lie apart.
    """
    found = []
    for row, first in enumerate(place):
        single = [each for each in (row, first) if rows.at[each, "sessions"] < 2]
        if rows.at[row, "recording"] == rows.at[first, "recording"]:
            found.append(TOGETHER)
        elif not single:
            found.append(SEVERAL)
        else:
            found.append(FROM_OTHERS if known[single].all() else ONE_SESSION)
    return found


def _deviations(rows: pd.DataFrame, known: pd.DataFrame) -> FloatArray:
    """Return draws of how another session's time would be off, 1 where a row has several.

    Shape (rows, DRAWS). As Student's t, by the degrees of freedom of all GPUs together.
    """
    found = np.ones((len(rows), DRAWS))
    single = (rows["sessions"] < 2) & known["variance"].notna()
    for row in np.flatnonzero(single):
        variance, degrees_of_freedom = known.iloc[row]
        rng = seeded("gpu_comparison", *rows.loc[row, ["gpu", *_KEY]])
        found[row] = np.exp(variance**0.5 * rng.standard_t(degrees_of_freedom, DRAWS))
    return found


def verdict(low: float, high: float) -> str:
    """Return what the interval of a ratio of times says; `THRESHOLD` is what would matter."""
    if math.isnan(low) or math.isnan(high):
        return NO_INTERVAL
    limit = 1 + THRESHOLD
    if high < 1 / limit:
        return FASTER
    if low > limit:
        return SLOWER
    return SAME if 1 / limit <= low and high <= limit else UNDECIDED


def _fastest(source: Source, summary: pd.DataFrame) -> Iterator[tuple[pd.DataFrame, FloatArray]]:
    """Yield the fastest way on a GPU at each order, and the bootstrap draws of their medians.

    Those of a quantity come together, from pageable memory first.
    """
    gpu = of_sizes(summary[summary["gpu"] == source.label])
    for quantity in ("total", "kernel"):
        cells = gpu[gpu[f"{quantity}_s"].notna()]
        ways = cells.loc[cells.groupby(["host_memory", "n"])[f"{quantity}_s"].idxmin()]
        if ways.empty:
            continue
        rows = ways.assign(gpu_name=source.gpu_name, quantity=quantity)
        rows[with_bounds("time_s")] = ways[with_bounds(f"{quantity}_s")]
        yield rows, source.drawn(ways, quantity)
