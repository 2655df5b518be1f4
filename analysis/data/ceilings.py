"""What a GPU, its link, the CPU and their clocks do at most, as measured."""

import pandas as pd

from analysis.data.frames import stacked
from analysis.data.recordings import Source, labelled, once_a_recording
from analysis.schema import with_bounds
from analysis.stats.estimates import Groups

_CEILING = ["device", "quantity", "host_memory", "size_bytes", "threads"]


def ceilings_table(found: list[Source]) -> pd.DataFrame:
    """Return the median of every ceiling over its rounds; its name ends in the unit of the values.

    See `measurement.devices.ceilings` and `measurement.devices.cpu_ceilings` for what each quantity is.
    """
    own = ((source, _ceilings(source.own(source.recording.ceilings))) for source in found)
    return stacked("ceilings", [labelled(*rows) for rows in once_a_recording(own)])


def rates_of(ceilings: pd.DataFrame, gpu: str) -> dict[str, float]:
    """Return by quantity what a GPU can do at most by itself: no copies from or to its host."""
    own = ceilings[(ceilings["gpu"] == gpu) & ceilings["host_memory"].isna()]
    return dict(own.set_index("quantity")["value"].astype(float))


def _ceilings(own: pd.DataFrame) -> pd.DataFrame:
    ceilings = Groups.of(own, _CEILING)
    rows = ceilings.keys.assign(rounds=ceilings.counts)
    rows[with_bounds("value")] = ceilings.medians(own["value"]).T
    return rows
