"""Kernel-only times of a recording."""

import pandas as pd

from measurement.recording.recording import CELL, KERNEL, Recording


def kernel_times(recording: Recording) -> pd.DataFrame:
    """Return the kernel-only times of every cell with samples, one row per sample, in seconds.

    Columns: `CELL`, session, kernel_s. The times were taken behind a blocking kernel, and cells
    that differ only in host memory have the same ones. A cell without kernel-only times, as on a
    CPU, has one row with a blank time.
    """
    key = [*KERNEL, "session"]
    cells = recording.samples[[*CELL, "session"]].drop_duplicates()
    return cells.merge(recording.kernels[[*key, "kernel_s"]], how="left", on=key)
