"""Measured ceilings of GPUs, links, CPUs and clocks."""

import pandas as pd

from analysis.data.frames import stacked
from analysis.data.recordings import MeasuredSource, labelled, once_per_recording
from analysis.schema import with_bounds
from analysis.stats.estimates import Groups

_CEILING = ["device", "quantity", "host_memory", "size_bytes", "threads"]


def ceilings_table(found: list[MeasuredSource]) -> pd.DataFrame:
    """Return the median of every ceiling over its rounds, in the unit that ends its name.

    `measurement.devices.ceilings` and `measurement.devices.cpu_ceilings` define the quantities.
    """
    own = ((source, _ceilings(source.own(source.recording.ceilings))) for source in found)
    return stacked("ceilings", [labelled(*rows) for rows in once_per_recording(own)])


def rates_of(ceilings: pd.DataFrame, gpu: str) -> dict[str, float]:
    """Return the ceilings of a GPU by quantity, without copies from or to its host."""
    own = ceilings[(ceilings["gpu"] == gpu) & ceilings["host_memory"].isna()]
    return dict(own.set_index("quantity")["value"].astype(float))


def _ceilings(own: pd.DataFrame) -> pd.DataFrame:
    ceilings = Groups.of(own, _CEILING)
    rows = ceilings.keys.assign(rounds=ceilings.counts)
    rows[with_bounds("value")] = ceilings.medians(own["value"]).T
    return rows
