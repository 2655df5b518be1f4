"""How much sessions of one GPU model vary."""

from collections.abc import Sequence

import pandas as pd

from analysis.data.frames import stacked
from analysis.data.recordings import MeasuredSource, labelled, once_per_recording
from analysis.domain import CPU

_PARTS = ("total", "host", "h2d", "kernel", "d2h")


def sessions_table(sources: Sequence[MeasuredSource]) -> pd.DataFrame:
    """Return one row per source with several sessions, part of the time, and kind of cell.

    `analysis.stats.sessions` defines the kinds and three standard deviations of log time: between
    sessions, the part shared by all cells of the kind, and the noise of one session's median.
    mean_interval_factor is the half-width of the interval of a cell's mean as a factor;
    new_session_interval_factor is that of the prediction interval for a new session's median.
    """
    frames = ((source, _scatters(source)) for source in sources)
    return stacked("sessions", [labelled(*rows) for rows in once_per_recording(frames)])


def _scatters(source: MeasuredSource) -> pd.DataFrame:
    """Return the rows of all parts of the time for a source with several sessions."""
    several = {part: source.sessions(part) for part in _PARTS}
    frames = [times.scatters(part) for part, times in several.items() if times]
    if not frames:
        return pd.DataFrame({"device": []})
    rows = pd.concat(frames, ignore_index=True)
    device = pd.Series(source.device, rows.index, dtype="str").mask(rows["host_memory"].isna(), CPU)
    return rows.assign(device=device)
