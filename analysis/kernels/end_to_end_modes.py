"""End-to-end runs in pieces and as graphs, compared with the run of the previous step."""

import pandas as pd

from analysis.data.ceilings import with_floors
from analysis.data.frames import stacked
from analysis.domain import SHAPE
from kernels.catalog.entries import VARIANTS
from kernels.catalog.variant import SEQUENTIAL
from measurement.recording.schema import SETTING

_FLOWS = [name for name, v in VARIANTS.items() if v.flow not in SEQUENTIAL]
_RUN = ["gpu", "dtype", *SHAPE, "host_memory", "variant", "block_size"]


def end_to_end_modes_table(ladder: pd.DataFrame, pieces: pd.DataFrame) -> pd.DataFrame:
    """Return one row per variant with pieces or a graph, shape and GPU.

    Arguments are the tables of these names. The run is compared with that of the previous step;
    both have their fastest tile shapes. The settings are those of the fastest run whose setting was
    used; copies_s is the floor (`with_floors`).
    """
    rows = ladder[(ladder["quantity"] == "total") & ladder["variant"].isin(_FLOWS)]
    rows = rows.rename(columns={"time_s": "total_s", "after_time_s": "after_total_s"})
    used = pieces[pieces["used"].astype(bool)].sort_values("run_s").drop_duplicates(_RUN)
    rows = rows.merge(used[[*_RUN, *SETTING]], how="left", on=_RUN)
    return stacked("end_to_end_modes", [with_floors(rows, pieces)])
