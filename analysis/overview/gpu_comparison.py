"""GPUs compared: the fastest implementation on each, relative to that on the first GPU."""

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.data.cells import of_sizes
from analysis.data.frames import stacked
from analysis.data.recordings import MeasuredSource, with_gpu
from analysis.domain import IN_RUN, NO_INTERVAL, ONE_SESSION
from analysis.schema import with_bounds
from analysis.stats.estimates import DRAWS, FloatArray, IntArray, ratio_intervals, seeded
from analysis.stats.sessions import SessionVariance
from analysis.stats.significance import FASTER, SAME, SLOWER, THRESHOLD, UNDECIDED

_KEY = ["n", "quantity", "host_memory"]
_SEED = "cards"  # any other text changes the bounds of all intervals
# In-run kernel times include about 10 µs of host work, negligible from this time.
_LONG_S = 1e-3
# Basis of a ratio's interval: both GPUs were measured in the same sessions; each has several; the
# variance between sessions of a GPU with one session is taken from other GPUs.
TOGETHER, SEVERAL, FROM_OTHERS = "same sessions", "several sessions", "deviation of other GPUs"


def gpu_comparison_table(
    sources: list[MeasuredSource], summary: pd.DataFrame, sessions: pd.DataFrame
) -> pd.DataFrame:
    """Return the fastest implementation on each GPU and size, relative to the first GPU.

    The quantity "total" includes the copies. Libraries are included; variants not measured on all
    GPUs are excluded. If kernel-only and in-run kernel times occur, short in-run times are
    excluded. first: the first GPU of `sources` measured at the same size. ratio: the GPU's time
    over the time on `first` (empty for `first`), with a 95 % interval from independent bootstrap
    draws of both medians over sessions. For a GPU with one session the interval is widened by the
    deviation between sessions of other GPUs (`sessions`, the table of that name). basis: see
    `TOGETHER`. verdict: on the interval; `ONE_SESSION` if no deviation between sessions is known.
    `summary` is `analysis.data.recordings.summary_table`.
    """
    gpus = with_gpu(sources)
    measured = summary[summary["gpu"].isin([source.label for source in gpus])]
    having = measured.groupby("variant")["gpu"].nunique()
    common = having.index[having == measured["gpu"].nunique()]
    summary = measured[measured["variant"].isin(common)]
    if summary["kernel_timing"].nunique() > 1:
        short = (summary["kernel_timing"] == IN_RUN) & (summary["kernel_s"] < _LONG_S)
        summary = summary.assign(kernel_s=summary["kernel_s"].mask(short.fillna(False)))
    fastest = [cells for source in gpus for cells in _fastest(source, summary)]
    if not fastest:
        return stacked("gpu_comparison", [])
    rows = pd.concat([cells for cells, _ in fastest], ignore_index=True)
    draws = np.concatenate([drawn for _, drawn in fastest])
    first = rows.reset_index().groupby(_KEY)["index"].transform("first").to_numpy()
    for name, column in (("first", "gpu"), ("first_sessions", "sessions")):
        rows[name] = rows[column].to_numpy()[first]
    others = first != rows.index.to_numpy()
    rows["ratio"] = (rows["time_s"] / rows["time_s"].to_numpy()[first]).where(others)
    host_work = rows["host_s"].notna() & (rows["quantity"] == "total")
    between = SessionVariance.of(sessions).at(rows.assign(host_work=host_work))
    rows["basis"] = _bases(rows, first, between["variance"].notna().to_numpy())
    widened = (rows["basis"] == FROM_OTHERS).to_numpy()
    wider = draws * _deviations(rows, between)
    of_both = np.where(widened[:, None], wider / wider[first], draws / draws[first])
    bounds = ratio_intervals(np.where(others[:, None], of_both, np.nan), np.ones(1))
    rows["ratio_low"], rows["ratio_high"] = bounds
    found = zip(others, rows["basis"], *bounds, strict=True)
    rows["verdict"] = [
        None if not other else ONE_SESSION if basis == ONE_SESSION else verdict(low, high)
        for other, basis, low, high in found
    ]
    rows["basis"] = rows["basis"].where(others)
    return stacked("gpu_comparison", [rows])


def _bases(rows: pd.DataFrame, first: IntArray, known: npt.NDArray[np.bool_]) -> list[str]:
    """Return the basis of each row's ratio to the row `first`.

    `known`: whether the variance between sessions of each row is known.
    """
    found = []
    for row, other in enumerate(first):
        single = [each for each in (row, other) if rows.at[each, "sessions"] < 2]
        if rows.at[row, "recording"] == rows.at[other, "recording"]:
            found.append(TOGETHER)
        elif not single:
            found.append(SEVERAL)
        else:
            found.append(FROM_OTHERS if known[single].all() else ONE_SESSION)
    return found


def _deviations(rows: pd.DataFrame, between: pd.DataFrame) -> FloatArray:
    """Return draws of the ratio of another session's time, shape (rows, DRAWS).

    They follow Student's t with the pooled degrees of freedom; rows with several sessions have 1.
    """
    found = np.ones((len(rows), DRAWS))
    single = (rows["sessions"] < 2) & between["variance"].notna()
    for row in np.flatnonzero(single):
        variance, degrees_of_freedom = between.iloc[row]
        rng = seeded(_SEED, *rows.loc[row, ["gpu", *_KEY]])
        found[row] = np.exp(variance**0.5 * rng.standard_t(degrees_of_freedom, DRAWS))
    return found


def verdict(low: float, high: float) -> str:
    """Return the verdict on the interval of a ratio of times, with tolerance `THRESHOLD`."""
    if math.isnan(low) or math.isnan(high):
        return NO_INTERVAL
    limit = 1 + THRESHOLD
    if high < 1 / limit:
        return FASTER
    if low > limit:
        return SLOWER
    return SAME if 1 / limit <= low and high <= limit else UNDECIDED


def _fastest(
    source: MeasuredSource, summary: pd.DataFrame
) -> Iterator[tuple[pd.DataFrame, FloatArray]]:
    """Yield for each quantity the fastest cells by host memory and size, with bootstrap draws."""
    gpu = of_sizes(summary[summary["gpu"] == source.label])
    for quantity in ("total", "kernel"):
        cells = gpu[gpu[f"{quantity}_s"].notna()]
        best = cells.loc[cells.groupby(["host_memory", "n"])[f"{quantity}_s"].idxmin()]
        if best.empty:
            continue
        rows = best.assign(gpu_name=source.gpu_name, quantity=quantity)
        rows[with_bounds("time_s")] = best[with_bounds(f"{quantity}_s")]
        yield rows, source.drawn(best, quantity)
