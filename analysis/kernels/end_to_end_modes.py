"""Passes in pieces and as graphs beside the plain run of the same kernel, and what limits them."""

import pandas as pd

from analysis.data.frames import stacked
from analysis.domain import SHAPE
from kernels.catalog.entries import VARIANTS
from kernels.catalog.variant import IN_TURN

_FLOWS = [name for name, v in VARIANTS.items() if v.flow != IN_TURN]
# The parts of a run in turn; column of summary.csv, and what the part is called.
_PARTS = {"h2d_s": "copies to the card", "in_run_kernel_s": "kernel", "d2h_s": "copy back"}
_KEY = ["gpu", "dtype", *SHAPE, "host_memory"]


def end_to_end_modes_table(ladder: pd.DataFrame, summary: pd.DataFrame) -> pd.DataFrame:
    """Return one row a variant whose run is not in turn, shape and GPU.

    `ladder` and `summary` are the tables of those names; the plain run is that of the step before
    in `ladder`, each with its fastest tile. parts_s is the sum of the plain run's parts, limit the
    longest of them, which no overlap hides: share_of_limit is limit_s over the total time.
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
    return stacked(
        "end_to_end_modes", [rows.assign(share_of_limit=rows["limit_s"] / rows["total_s"])]
    )
