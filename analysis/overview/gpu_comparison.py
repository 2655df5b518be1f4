"""GPUs compared: the time of the fastest implementation on each, relative to the first GPU.

Both are the fastest of the candidates that were measured on both GPUs (`analysis.data.best`).
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

import numpy as np
import pandas as pd

from analysis.data.best import fastest, fastest_of_both
from analysis.data.cells import of_sizes
from analysis.data.frames import stacked
from analysis.data.recordings import MeasuredSource, with_gpu
from analysis.domain import NO_INTERVAL, ONE_SESSION, preferred_memory
from analysis.schema import renaming
from analysis.stats.estimates import DRAWS, FloatArray, ratio_intervals, seeded
from analysis.stats.sessions import SessionVariance, matrices_in
from analysis.stats.significance import FASTER, SAME, SLOWER, THRESHOLD, UNDECIDED
from base.errors import StudyError

_KEY = ["n", "quantity", "host_memory"]
_SEED = "cards"  # another seed would change the bounds of all intervals
# Basis of a ratio's interval: both GPUs were measured in the same sessions; each has several; the
# variance between sessions of a GPU with one session is taken from other GPUs.
TOGETHER, SEVERAL, FROM_OTHERS = "same sessions", "several sessions", "deviation of other GPUs"


def gpu_comparison_table(
    sources: list[MeasuredSource], summary: pd.DataFrame, sessions: pd.DataFrame
) -> pd.DataFrame:
    """Return one row per GPU, size and quantity: the fastest implementation, and its ratio.

    The quantity "total" includes the copies. Libraries are included. first: the first GPU of
    `sources` that was measured at this size. Both times are the least over the `candidates` common
    to both GPUs, whose sources are equal in all recordings. A GPU without common candidates has no
    row. ratio: time_s divided by the time of `first` (empty for `first` itself, whose candidates
    are all that it has), with a 95 % interval from independent draws of both medians over sessions.
    For a GPU with one session the interval is widened by the deviation between sessions of other
    GPUs (the table `sessions`). basis: see `TOGETHER`. verdict: on the interval; `ONE_SESSION` if
    no deviation between sessions is known. `summary` is `analysis.data.recordings.summary_table`.
    """
    gpus = {source.label: source for source in with_gpu(sources)}
    cells = of_sizes(summary[summary["gpu"].isin(list(gpus))])
    pairs = [pair for quantity in ("total", "kernel") for pair in _pairs(gpus, cells, quantity)]
    if not pairs:
        return stacked("gpu_comparison", [])
    rows, first = (pd.concat(side, ignore_index=True) for side in zip(*pairs, strict=True))
    others = (rows["gpu"] != first["gpu"]).to_numpy()
    variances = SessionVariance.of(sessions)
    caches = {label: source.l2_bytes for label, source in gpus.items()}
    between = []
    for side in (rows, first):
        host_work = side["host_s"].notna() & (side["quantity"] == "total")
        memory = matrices_in(side, side["gpu"].map(caches))
        between.append(variances.at(side.assign(host_work=host_work, matrices_in=memory)))
    rows["basis"] = _bases(rows, first, *(one["variance"].notna() for one in between))
    draws = [np.empty((len(rows), DRAWS)) for _ in range(2)]
    for side, of_side in zip((rows, first), draws, strict=True):
        for (gpu, quantity), of_gpu in side.groupby(["gpu", "quantity"], sort=False):
            of_side[of_gpu.index] = gpus[str(gpu)].drawn(of_gpu, str(quantity))
    wider = [
        drawn * _deviations(side, variance)
        for drawn, side, variance in zip(draws, (rows, first), between, strict=True)
    ]
    widened = (rows["basis"] == FROM_OTHERS).to_numpy()[:, None]
    of_both = np.where(widened, wider[0] / wider[1], draws[0] / draws[1])
    bounds = ratio_intervals(np.where(others[:, None], of_both, np.nan), np.ones(1))
    rows["first"] = first["gpu"]
    rows["ratio"] = rows["time_s"] / first["time_s"].where(others)
    rows["ratio_low"], rows["ratio_high"] = bounds
    words = pd.Series([verdict(*each) for each in zip(*bounds, strict=True)], rows.index)
    rows["verdict"] = words.mask(rows["basis"] == ONE_SESSION, ONE_SESSION).where(others, None)
    rows["basis"] = rows["basis"].where(others)
    return stacked("gpu_comparison", [rows])


def _bases(
    rows: pd.DataFrame, first: pd.DataFrame, estimated: pd.Series, first_estimated: pd.Series
) -> list[str]:
    """Return the basis of each ratio; `estimated`: the variance between its sessions is known."""
    together = rows["recording"] == first["recording"]
    single, first_single = rows["sessions"] < 2, first["sessions"] < 2
    several = ~(single | first_single)
    from_others = (estimated | ~single) & (first_estimated | ~first_single)
    conditions = [each.fillna(False).to_numpy(bool) for each in (together, several, from_others)]
    return list(np.select(conditions, [TOGETHER, SEVERAL, FROM_OTHERS], ONE_SESSION))


def _deviations(rows: pd.DataFrame, between: pd.DataFrame) -> FloatArray:
    """Return draws of the ratio by which another session's time may differ: (rows, DRAWS).

    They follow Student's t with the pooled degrees of freedom. For rows with several sessions they
    are 1, because their own draws contain this variation.
    """
    factors = np.ones((len(rows), DRAWS))
    single = (rows["sessions"] < 2) & between["variance"].notna()
    for row in np.flatnonzero(single):
        variance, degrees_of_freedom = between.iloc[row]
        rng = seeded(_SEED, *rows.loc[row, ["gpu", *_KEY]])
        factors[row] = np.exp(variance**0.5 * rng.standard_t(degrees_of_freedom, DRAWS))
    return factors


def verdict(low: float, high: float) -> str:
    """Return the verdict on a ratio of times from its interval, with tolerance `THRESHOLD`."""
    if math.isnan(low) or math.isnan(high):
        return NO_INTERVAL
    limit = 1 + THRESHOLD
    if high < 1 / limit:
        return FASTER
    if low > limit:
        return SLOWER
    return SAME if 1 / limit <= low and high <= limit else UNDECIDED


def _pairs(
    gpus: Mapping[str, MeasuredSource], cells: pd.DataFrame, quantity: str
) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
    """Yield the fastest cells of each GPU, and those of the first GPU in rows of the same sizes."""
    by = ["host_memory", "n"]
    cells = cells[cells[f"{quantity}_s"].notna()]
    if quantity == "kernel":  # kernel-only times are the same for any host memory
        memory = preferred_memory(quantity, cells["host_memory"])
        cells = cells[cells["host_memory"] == memory]
    times = renaming(f"{quantity}_s", "time_s").items()
    cells = cells.assign(quantity=quantity, **{name: cells[of] for of, name in times})
    sources = {name: each.source for gpu in gpus.values() for name, each in gpu.catalog.items()}
    is_alike = ~cells["variant"].map(sources).isin(_changed_sources(gpus.values()))
    rank = cells["gpu"].map({label: at for at, label in enumerate(gpus)})
    is_first = rank == rank.groupby([cells[name] for name in by]).transform("min")
    for label in gpus:
        of_gpu = cells["gpu"] == label
        best = fastest(cells[of_gpu & is_first], "time_s", by)
        yield best, best
        with suppress(StudyError):
            others, firsts = cells[is_alike & of_gpu & ~is_first], cells[is_alike & is_first]
            yield fastest_of_both(others, firsts, "time_s", by)


def _changed_sources(gpus: Iterable[MeasuredSource]) -> set[str]:
    """Return the source files of kernels whose code differs between recordings of these GPUs."""
    digests: dict[str, set[str]] = defaultdict(set)
    for gpu in gpus:
        for path, digest in gpu.recording.provenance["sources"].items():
            digests[path].add(digest)
    return {path for path, of_path in digests.items() if len(of_path) > 1}
