"""Measured ceilings of GPUs, links, CPUs and clocks."""

import pandas as pd

from analysis.data.best import fastest
from analysis.data.frames import stacked
from analysis.data.recordings import MeasuredSource, labelled, once_per_recording, with_gpu
from analysis.domain import SHAPE
from analysis.schema import with_bounds
from analysis.stats.estimates import Groups
from kernels.catalog.entries import VARIANTS
from measurement.recording.schema import SETTING

_RUN = ["device", "variant", "dtype", *SHAPE, "block_size", "host_memory", "gpus"]
_FLOOR = ["gpu", "dtype", *SHAPE, "host_memory", "gpus"]
_TRIAL = ["gpu", "variant", "dtype", *SHAPE, "block_size", "host_memory"]
_CEILING = ["device", "quantity", "host_memory", "size_bytes", "threads"]


def ceilings_table(sources: list[MeasuredSource]) -> pd.DataFrame:
    """Return one row per ceiling: its median over the rounds, in the unit that ends its name.

    `measurement.devices.ceilings` and `measurement.devices.cpu_ceilings` define the quantities.
    """
    tables = ((source, _ceilings(source.own(source.recording.ceilings))) for source in sources)
    return stacked("ceilings", [labelled(*rows) for rows in once_per_recording(tables)])


def pieces_table(sources: list[MeasuredSource]) -> pd.DataFrame:
    """Return one row per setting of a run in pieces: medians with and without the product.

    used: in some session, the samples of the run were taken with this setting.
    """
    frames = []
    for source in with_gpu(sources):
        runs = source.own(source.recording.pieces)
        settings = Groups.of(runs, [*_RUN, *SETTING])
        rows = settings.keys.assign(used=settings.sums(runs["used"]) > 0)
        for name in ("copies_s", "run_s"):
            rows[with_bounds(name)] = settings.medians(runs[name]).T
        frames.append(labelled(source, rows))
    return stacked("pieces", frames)


def with_floors(rows: pd.DataFrame, pieces: pd.DataFrame) -> pd.DataFrame:
    """Return cells with copies_s, the floor of their end-to-end time, and over_floor.

    The floor is the least time that the copies of a run in pieces took, on the same number of GPUs.
    over_floor is the time of the cell divided by the floor. For runs in pieces it is that of the
    fastest trial whose setting was used, because samples were taken at another time than the
    copies. is_most_pieces: of several numbers of pieces tried, the largest was used.
    """
    floors = fastest(pieces, "copies_s", _FLOOR)[[*_FLOOR, "copies_s"]]
    tried = pieces.groupby(_TRIAL, dropna=False)["pieces"].agg(["min", "max"]).reset_index()
    trials = pieces[pieces["used"].astype(bool)].sort_values("run_s").drop_duplicates(_TRIAL)
    trials = trials[[*_TRIAL, *SETTING, "run_s"]].merge(tried, on=_TRIAL)
    is_most = (trials["pieces"] == trials["max"]) & (trials["min"] < trials["max"])
    trials = trials.assign(is_most_pieces=is_most)
    gpus = rows["variant"].map({name: entry.gpus for name, entry in VARIANTS.items()})
    floored = rows.assign(gpus=gpus.fillna(1).astype("Int64")).merge(floors, how="left", on=_FLOOR)
    floored = floored.merge(trials, how="left", on=_TRIAL)
    return floored.assign(over_floor=floored["run_s"] / floored["copies_s"].astype(float))


def _ceilings(measured: pd.DataFrame) -> pd.DataFrame:
    ceilings = Groups.of(measured, _CEILING)
    rows = ceilings.keys.assign(rounds=ceilings.counts)
    rows[with_bounds("value")] = ceilings.medians(measured["value"]).T
    return rows
