"""Kernel times of a recording: kernel-only where the recording contains them, else in-run."""

import pandas as pd

from measurement.recording.provenance_schema import KERNEL_ONLY
from measurement.recording.recording import CELL, KERNEL, Recording

_COLUMNS = [*CELL, "session", "kernel_s"]


def kernel_times(recording: Recording, kernel_only: bool = True) -> pd.DataFrame:
    """Return the kernel times of every cell with samples, one row per sample, in seconds.

    Columns: `CELL`, session, kernel_s. Kernel-only times were taken behind a blocking kernel and
    are shared by all host memories. In-run times, used without `kernel_only` times or if these are
    not wanted, are between events of end-to-end runs and include host work. A cell without kernel
    times, as on a CPU, has a blank one.
    """
    in_run = recording.samples.rename(columns={"in_run_kernel_s": "kernel_s"})[_COLUMNS]
    if not kernel_only or recording.provenance["kernel_timing"] != KERNEL_ONLY:
        return in_run
    cells = in_run[[*CELL, "session"]].drop_duplicates()
    key = [*KERNEL, "session"]
    return cells.merge(recording.kernels[[*key, "kernel_s"]], how="left", on=key)
