"""Which times stand for a kernel: the one place where that is chosen."""

import pandas as pd

from analysis.domain import CPU, IN_RUN, KERNEL_ONLY
from measurement.recording.recording import CELL, KERNEL, Recording

_COLUMNS = [*CELL, "session", "kernel_s"]


def kernel_times(recording: Recording, held: bool = True) -> pd.DataFrame:
    """Return the times of the kernel of every cell with samples, a row a sample, in seconds.

    Columns: `CELL`, session, kernel_s, kernel_timing. `HELD`: of the kernel alone, with the stream
    held until it was queued. They are the GPU's own, so that cells that differ in host memory
    share them. `IN_RUN`: between events of the runs, with the host in it, where the kernel was
    not timed alone (format 4), or where they alone are asked for. A CPU's are empty.
    """
    in_pass = recording.samples.rename(columns={"in_run_kernel_s": "kernel_s"})[_COLUMNS]
    on_cpu = in_pass["device"] == CPU
    in_pass = in_pass.assign(
        kernel_timing=pd.Series(IN_RUN, in_pass.index, dtype="string").mask(on_cpu)
    )
    if not held or recording.kernels.empty:
        return in_pass
    cells = in_pass[CELL].drop_duplicates()
    alone = cells.merge(recording.kernels[[*KERNEL, "session", "kernel_s"]], on=KERNEL)
    known = in_pass[CELL].merge(
        alone[CELL].drop_duplicates(), how="left", on=CELL, indicator="known"
    )
    others = in_pass[(known["known"] == "left_only").to_numpy()]
    rows = pd.concat([alone.assign(kernel_timing=KERNEL_ONLY), others], ignore_index=True)
    return rows[[*_COLUMNS, "kernel_timing"]].astype({"kernel_timing": "string"})
