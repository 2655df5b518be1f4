"""How far sessions of one GPU model lie from each other, and whether intervals hold one more."""

from collections.abc import Sequence

import pandas as pd

from analysis.data.frames import stacked
from analysis.data.recordings import Source, labelled, once_a_recording
from analysis.domain import CPU

_PARTS = ("total", "host", "h2d", "kernel", "d2h")


def sessions_table(found: Sequence[Source]) -> pd.DataFrame:
    """Return one row a source of several sessions, part of its times, and kind of cell.

    Kinds and standard deviations (of log time) are those of `analysis.stats.sessions`: between
    sessions beyond noise; common to all cells of the kind; of the noise of one session's median.
    mean_interval_factor is that to which the interval of a cell's mean reaches, new_session_interval_factor that of one
    more session's median. Of medians_evaluated, medians_inside lie within the interval for one more
    session that the others give, each session left out in turn: three are needed for that.
    """
    frames = ((source, _scatters(source)) for source in found)
    return stacked("sessions", [labelled(*rows) for rows in once_a_recording(frames)])


def _scatters(source: Source) -> pd.DataFrame:
    several = {part: source.sessions(part) for part in _PARTS}
    scatters = [times.scatters(part) for part, times in several.items() if times]
    if not scatters:
        return pd.DataFrame({"device": []})
    rows = pd.concat(scatters, ignore_index=True)
    evaluated = rows["medians_evaluated"]
    share = (rows["medians_inside"] / evaluated).where(evaluated > 0)
    device = pd.Series(source.device, rows.index, dtype="str").mask(rows["host_memory"].isna(), CPU)
    return rows.assign(inside_share=share, device=device)
