"""End-to-end runs in pieces and as graphs, compared with the plain run of the same kernel."""

import pandas as pd

from analysis.data.ceilings import with_floors
from analysis.data.frames import stacked
from analysis.domain import SHAPE
from kernels.catalog.entries import VARIANTS
from kernels.catalog.variant import SEQUENTIAL
from measurement.recording.schema import SETTING

_FLOWS = [name for name, v in VARIANTS.items() if v.flow not in SEQUENTIAL]
# The parts of a plain run: column of summary.csv, name.
_PARTS = {"h2d_s": "copies to the GPU", "in_run_kernel_s": "kernel", "d2h_s": "copy back"}
_KEY = ["gpu", "dtype", *SHAPE, "host_memory"]


def end_to_end_modes_table(
    ladder: pd.DataFrame, summary: pd.DataFrame, pieces: pd.DataFrame
) -> pd.DataFrame:
    """Return one row per variant with pieces or a graph, shape and GPU.

    Arguments are the tables of these names. The plain run is that of the previous step
    in `ladder`; both have their fastest tile shapes. parts_s: sum of the plain run's parts. limit:
    the longest part, which overlap cannot hide. share_of_limit: limit_s over total_s. The settings
    are those of the fastest run whose setting was used; copies_s is the floor (`with_floors`).
    """
    rows = ladder[(ladder["quantity"] == "total") & ladder["variant"].isin(_FLOWS)]
    plain = summary[[*_KEY, "variant", "block_size", *_PARTS]]
    plain = plain.rename(columns={"variant": "after", "block_size": "after_block_size"})
    rows = rows.merge(plain, how="left", on=[*_KEY, "after", "after_block_size"])
    parts = rows[list(_PARTS)].astype(float)
    known = parts.notna().all(axis=1)
    longest = parts[known].idxmax(axis=1).reindex(rows.index)
    rows = rows.assign(
        total_s=rows["time_s"],
        after_total_s=rows["after_time_s"],
        parts_s=parts.sum(axis=1).where(known),
        limit=longest.map(_PARTS),
        limit_s=parts.max(axis=1).where(known),
    )
    rows["share_of_limit"] = rows["limit_s"] / rows["total_s"]
    used = pieces[pieces["used"].astype(bool)].sort_values("run_s")
    used = used.drop_duplicates([*_KEY, "variant", "block_size"])
    settings = used[[*_KEY, "variant", "block_size", *SETTING]]
    rows = rows.merge(settings, how="left", on=[*_KEY, "variant", "block_size"])
    return stacked("end_to_end_modes", [with_floors(rows, pieces)])
