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
_CEILING = ["device", "quantity", "host_memory", "size_bytes", "threads"]


def ceilings_table(found: list[MeasuredSource]) -> pd.DataFrame:
    """Return the median of every ceiling over its rounds, in the unit that ends its name.

    `measurement.devices.ceilings` and `measurement.devices.cpu_ceilings` define the quantities.
    """
    own = ((source, _ceilings(source.own(source.recording.ceilings))) for source in found)
    return stacked("ceilings", [labelled(*rows) for rows in once_per_recording(own)])


def pieces_table(found: list[MeasuredSource]) -> pd.DataFrame:
    """Return runs in pieces with each setting: medians with and without the product.

    used: a session chose the setting for its samples.
    """
    frames = []
    for source in with_gpu(found):
        own = source.own(source.recording.pieces)
        settings = Groups.of(own, [*_RUN, *SETTING])
        rows = settings.keys.assign(rounds=settings.counts, used=settings.sums(own["used"]) > 0)
        for name in ("copies_s", "run_s"):
            rows[with_bounds(name)] = settings.medians(own[name]).T
        frames.append(labelled(source, rows))
    return stacked("pieces", frames)


def with_floors(rows: pd.DataFrame, pieces: pd.DataFrame) -> pd.DataFrame:
    """Return rows of cells with copies_s, the floor of total_s, and over_floor.

    The floor is the least time of the copies of a product in pieces, on the same number of GPUs.
    """
    floors = fastest(pieces, "copies_s", _FLOOR)[[*_FLOOR, "copies_s"]]
    gpus = rows["variant"].map({name: entry.gpus for name, entry in VARIANTS.items()})
    found = rows.assign(gpus=gpus.fillna(1).astype("Int64")).merge(floors, how="left", on=_FLOOR)
    return found.assign(over_floor=found["total_s"] / found["copies_s"].astype(float))


def rates_of(ceilings: pd.DataFrame, gpu: str) -> dict[str, float]:
    """Return the ceilings of a GPU by quantity, without copies from or to its host."""
    own = ceilings[(ceilings["gpu"] == gpu) & ceilings["host_memory"].isna()]
    return dict(own.set_index("quantity")["value"].astype(float))


def _ceilings(own: pd.DataFrame) -> pd.DataFrame:
    ceilings = Groups.of(own, _CEILING)
    rows = ceilings.keys.assign(rounds=ceilings.counts)
    rows[with_bounds("value")] = ceilings.medians(own["value"]).T
    return rows
