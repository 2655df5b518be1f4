"""The ladder at a glance: each kernel at its largest size, beside the library and the card."""

from collections.abc import Mapping

import pandas as pd

from analysis.data.cells import LIBRARIES, is_library, of_sizes, without_swept_naive
from analysis.data.frames import from_rows
from analysis.domain import CPU
from analysis.schema import with_bounds
from kernels.catalog import VARIANTS

# The host memory whose copies disturb the card least.
_MEMORY = ("pinned", "pageable")
_PLACES = {name: place for place, name in enumerate(VARIANTS)}


def glance_table(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return one row a card and kernel of square matrices, in the catalog's order.

    Each kernel has its fastest block size (naive: 32) at the largest of the card's sizes that it
    took. share_of_library: the library's kernel time at that size over its own;
    share_of_multiply_add: its rate over the rate of multiply-adds measured on the card. The gain is
    over the step before (`analysis.kernels.ladder`), of kernel times at the same size.
    """
    cells, ceilings, ladder = of_sizes(frames["summary"]), frames["ceilings"], frames["ladder"]
    names = [
        name for name, entry in VARIANTS.items() if entry.shapes == "square" or not entry.kernel
    ]
    cells = cells[cells["variant"].isin(names)]
    cells = without_swept_naive(cells[cells["kernel_s"].notna() & (cells["device"] != CPU)])
    found = []
    for gpu, own in cells.groupby("gpu", sort=False):
        memory = next(kind for kind in _MEMORY if (own["host_memory"] == kind).any())
        own = own[own["host_memory"] == memory]
        rate = ceilings.loc[
            (ceilings["gpu"] == gpu) & (ceilings["quantity"] == "fp32_flop_per_s"), "value"
        ].max()
        library = own[is_library(own)].set_index("n")["kernel_s"]
        steps = ladder[
            (ladder["gpu"] == gpu)
            & (ladder["quantity"] == "kernel")
            & (ladder["host_memory"] == memory)
            & (ladder["batch"] == 1)
            & (ladder["dtype"] == "float32")
        ]
        rows = [_row(of, library, rate, steps) for _, of in own.groupby("variant")]
        found += sorted(rows, key=lambda row: _PLACES[str(row["variant"])])
    return from_rows("glance", found)


def _row(
    cells: pd.DataFrame, library: pd.Series, rate: float, steps: pd.DataFrame
) -> dict[str, object]:
    """Return the row of one kernel; `library` has the library's kernel times by size."""
    largest = cells[cells["n"] == cells["n"].max()]
    best = largest.loc[largest["kernel_s"].idxmin()]
    columns = ("recording", "gpu", "variant", "n", "block_size", "samples", "kernel_flop_per_s")
    row = {name: best[name] for name in (*columns, *with_bounds("kernel_s"))}
    row["after"], row["idea"] = VARIANTS[best["variant"]].after, VARIANTS[best["variant"]].idea
    row["is_library"] = best["variant"] in LIBRARIES
    row["share_of_library"] = library.get(best["n"], float("nan")) / best["kernel_s"]
    row["share_of_multiply_add"] = best["kernel_flop_per_s"] / rate
    same = (steps["variant"] == best["variant"]) & (steps["n"] == best["n"])
    square = (steps["m"] == steps["n"]) & (steps["k"] == steps["n"])
    step = steps[same & square]
    if not step.empty:
        row |= step.iloc[0][[*with_bounds("gain"), "verdict"]].to_dict()
    return row
