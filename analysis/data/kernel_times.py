"""Kernel times of a recording: kernel-only where measured, else in-run."""

import pandas as pd

from analysis.domain import CPU, IN_RUN, KERNEL_ONLY
from measurement.recording.recording import CELL, KERNEL, Recording

_COLUMNS = [*CELL, "session", "kernel_s"]


def kernel_times(recording: Recording, kernel_only: bool = True) -> pd.DataFrame:
    """Return the kernel times of every cell with samples, one row per sample, in seconds.

    Columns: `CELL`, session, kernel_s, kernel_timing. `KERNEL_ONLY` times were taken behind a
    blocking kernel and are shared by all host memories. `IN_RUN` times are between events of
    end-to-end runs and include host work. They are used without `kernel_only` times (format 4) or
    if `kernel_only` times are not wanted. CPU times are blank.
    """
    in_run = recording.samples.rename(columns={"in_run_kernel_s": "kernel_s"})[_COLUMNS]
    on_cpu = in_run["device"] == CPU
    timing = pd.Series(IN_RUN, in_run.index, dtype="string").mask(on_cpu)
    in_run = in_run.assign(kernel_timing=timing)
    if not kernel_only or recording.kernels.empty:
        return in_run
    cells = in_run[CELL].drop_duplicates()
    measured = cells.merge(recording.kernels[[*KERNEL, "session", "kernel_s"]], on=KERNEL)
    known = measured[CELL].drop_duplicates()
    found = in_run[CELL].merge(known, how="left", on=CELL, indicator="known")["known"]
    others = in_run[(found == "left_only").to_numpy()]
    rows = pd.concat([measured.assign(kernel_timing=KERNEL_ONLY), others], ignore_index=True)
    return rows[[*_COLUMNS, "kernel_timing"]].astype({"kernel_timing": "string"})
