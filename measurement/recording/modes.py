"""Modes of the library in a recording: their kernel-only times and errors."""

from collections.abc import Iterable

import pandas as pd

from kernels.catalog.entries import CONTEXT, REFERENCE, VARIANTS
from kernels.catalog.variant import Library
from measurement.recording.recording import KERNEL, Recording

MODES = {name: one.mode for name, one in VARIANTS.items() if isinstance(one, Library)}
_HEADING = """
## Modes of cuBLAS

Median kernel-only times; the speed is relative to SGEMM in pedantic FP32 mode. The error is that of
the worst element, relative to the product of the float32 matrices, in units of 2⁻²⁴·Σ|a|·|b|.

| recording | N | mode | samples | TFLOP/s | speed | error |
| --- | ---: | --- | ---: | ---: | ---: | ---: |"""


def errors(checks: pd.DataFrame) -> pd.DataFrame:
    """Return the largest error of the products of each mode, as worst_units by kernel."""
    checks = checks[checks["variant"].isin(MODES) & checks["worst_bound"].notna()]
    units = checks["worst_error"] / checks["worst_bound"]
    factors = [
        _bound_units(str(name), int(k))
        for name, k in zip(checks["variant"], checks["k"], strict=True)
    ]
    found = checks[KERNEL].assign(worst_units=units * factors)
    return found.groupby(KERNEL, dropna=False, as_index=False)["worst_units"].max()


def _bound_units(name: str, k: int) -> float:
    return VARIANTS[name].roundoffs(k) / (1 - k * 2.0**-24)


def section(recordings: Iterable[Recording]) -> list[str]:
    """Return the lines of a Markdown table of square products; none without other modes."""
    lines = [line for one in recordings for line in _lines(one)]
    return [_HEADING, *lines] if lines else []


def _lines(recording: Recording) -> list[str]:
    times = recording.kernels
    times = times[times["variant"].isin(MODES) & (times["m"] == times["n"])]
    by_kernel = times.groupby(KERNEL, dropna=False, as_index=False)["kernel_s"]
    rows = by_kernel.agg(["median", "count"]).merge(errors(recording.checks), on=KERNEL)
    rows = rows[rows["n"].isin(rows.loc[rows["variant"].isin(CONTEXT), "n"])]
    reference = rows[rows["variant"] == REFERENCE].set_index("n")["median"]
    return [
        f"| {recording.path.name} | {row['n']} | {MODES[row['variant']]} | {row['count']} | "
        f"{2e-12 * row['n'] ** 3 / row['median']:.3g} | "
        f"{reference.get(row['n'], float('nan')) / row['median']:.3g} | {row['worst_units']:.3g} |"
        for row in rows.sort_values(["n", "median"], ascending=[True, False]).to_dict("records")
    ]
