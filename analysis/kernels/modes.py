"""Modes of the library: kernel-only time and error of each, beside its mode of reference."""

import pandas as pd

from analysis.data.frames import stacked
from analysis.data.recordings import MeasuredSource, labelled, with_gpu
from analysis.schema import bounded
from analysis.stats.estimates import ratios
from kernels.catalog.entries import CONTEXT, REFERENCE
from measurement.recording.modes import MODES, errors
from measurement.recording.recording import KERNEL


def modes_table(sources: list[MeasuredSource]) -> pd.DataFrame:
    """Return one row per GPU, matrix size and mode of the library, where other modes were measured.

    speedup: of the kernel-only time over `REFERENCE` at this size. worst_units: the largest error
    of an element of C by the checks, over that of the float32 product, in 2⁻²⁴·|A|·|B|.
    """
    return stacked("modes", [labelled(source, _modes(source)) for source in with_gpu(sources)])


def _modes(source: MeasuredSource) -> pd.DataFrame:
    cells = source.cells
    square = (cells["m"] == cells["n"]) & (cells["k"] == cells["n"]) & (cells["batch"] == 1)
    rows = cells[square & (cells["device"] == source.device) & cells["kernel_s"].notna()]
    rows = rows[rows["host_memory"] == source.memory("kernel")]
    rows = rows[rows["variant"].isin([REFERENCE, *CONTEXT])].sort_values("n", kind="stable")
    rows = rows[rows["n"].isin(rows.loc[rows["variant"].isin(CONTEXT), "n"])]
    reference = rows[rows["variant"] == REFERENCE].reset_index().set_index("n")["index"]
    above, below = rows["n"].map(reference), rows.index.to_series()
    speedup = ratios(cells["kernel_s"], source.draws["kernel"], above, below)
    return rows.assign(
        mode=rows["variant"].map(MODES),
        samples=rows["kernel_samples"],
        kernel_flop_per_s=2.0 * rows["n"].astype(float) ** 3 / rows["kernel_s"],
        worst_units=rows.merge(errors(source.checks), how="left", on=KERNEL)[
            "worst_units"
        ].to_numpy(),
        **bounded("speedup", *speedup),
    )
