"""Modes of the library: the kernel-only time and the error of each, next to its reference mode."""

import pandas as pd

from analysis.data.cells import is_square
from analysis.data.frames import stacked
from analysis.data.recordings import MeasuredSource, labelled, with_gpu
from analysis.schema import bounded
from analysis.stats.estimates import ratios
from kernels.catalog.entries import CONTEXT, REFERENCE, VARIANTS
from kernels.catalog.variant import Library
from measurement.recording.recording import KERNEL

_MODES = {name: one.mode for name, one in VARIANTS.items() if isinstance(one, Library)}


def modes_table(sources: list[MeasuredSource]) -> pd.DataFrame:
    """Return one row per GPU, matrix size and mode of the library, if several were measured.

    speedup: the kernel-only speedup over the mode `REFERENCE` at this size. worst_units: the
    largest error of an element of C that the checks found, in units of 2⁻²⁴·|A|·|B|.
    """
    return stacked("modes", [labelled(source, _modes(source)) for source in with_gpu(sources)])


def _modes(source: MeasuredSource) -> pd.DataFrame:
    cells = source.cells
    rows = cells[is_square(cells) & (cells["device"] == source.device) & cells["kernel_s"].notna()]
    rows = rows[rows["host_memory"] == source.memory("kernel")]
    rows = rows[rows["variant"].isin([REFERENCE, *CONTEXT])].sort_values("n", kind="stable")
    rows = rows[rows["n"].isin(rows.loc[rows["variant"].isin(CONTEXT), "n"])]
    reference = rows[rows["variant"] == REFERENCE].reset_index().set_index("n")["index"]
    above, below = rows["n"].map(reference), rows.index.to_series()
    speedup = ratios(cells["kernel_s"], source.draws["kernel"], above, below)
    return rows.assign(
        mode=rows["variant"].map(_MODES),
        samples=rows["kernel_samples"],
        kernel_flop_per_s=2.0 * rows["n"].astype(float) ** 3 / rows["kernel_s"],
        worst_units=rows.merge(_errors(source.checks), how="left", on=KERNEL)[
            "worst_units"
        ].to_numpy(),
        **bounded("speedup", *speedup),
    )


def _errors(checks: pd.DataFrame) -> pd.DataFrame:
    """Return the largest error that checks found in the products of each mode: worst_units."""
    checks = checks[checks["variant"].isin(_MODES) & checks["worst_bound"].notna()]
    units = checks["worst_error"] / checks["worst_bound"]
    factors = [
        _bound_units(str(name), int(k))
        for name, k in zip(checks["variant"], checks["k"], strict=True)
    ]
    found = checks[KERNEL].assign(worst_units=units * factors)
    return found.groupby(KERNEL, dropna=False, as_index=False)["worst_units"].max()


def _bound_units(name: str, k: int) -> float:
    return VARIANTS[name].roundoffs(k) / (1 - k * 2.0**-24)
