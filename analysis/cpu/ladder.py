"""The CPU's ladder: the speedup of each step over the previous one, and over fewer threads."""

import pandas as pd

from analysis.cpu.cells import NAIVE, ONE, SEVERAL, with_threads
from analysis.data.best import fastest
from analysis.data.frames import stacked
from analysis.data.recordings import MeasuredSource, once_per_recording
from analysis.domain import CPU, verdict
from analysis.schema import bounded, renaming
from analysis.stats.estimates import ratios

# Steps: a variant on one thread or on several, and the step before it.
STEPS = pd.DataFrame(
    [
        ("loop_order", ONE, NAIVE, ONE),
        ("column_buffered", ONE, NAIVE, ONE),
        ("blocked", ONE, "loop_order", ONE),
        ("packed", ONE, "blocked", ONE),
        ("blas", ONE, "packed", ONE),
        ("packed", SEVERAL, "packed", ONE),
        ("blas", SEVERAL, "blas", ONE),
        ("blas", SEVERAL, "packed", SEVERAL),
    ],
    columns=["variant", "on", "after_variant", "after_on"],
)


def cpu_ladder_table(sources: list[MeasuredSource]) -> pd.DataFrame:
    """Return one row per step, size and recording; each side has its fastest block size.

    speedup: over the previous step, with an interval from the draws of both medians. verdict: as in
    `analysis.kernels.ladder`. efficiency: for the same variant on one thread and on several, the
    speedup divided by the number of threads.
    """
    frames = []
    for source, cells in once_per_recording((source, source.square_cells) for source in sources):
        steps = _pairs(cells[cells["device"] == CPU])
        frames.append(_evaluated(source, steps).assign(recording=source.recording_id))
    return stacked("cpu_ladder", frames)


def _pairs(cpu: pd.DataFrame) -> pd.DataFrame:
    """Return the cells of `STEPS`, each merged with the cell of the previous step at its size."""
    on = with_threads(cpu, ONE).map({True: ONE, False: SEVERAL})
    cpu = cpu.assign(on=on, row=cpu.index, time_s=cpu["total_s"])
    best = fastest(cpu, "total_s", ["variant", "on", "n"])
    best = best[["variant", "on", "n", "block_size", "threads", "time_s", "row"]]
    before = best.add_prefix("after_").rename(columns={"after_n": "n"})
    steps = STEPS.merge(best, on=["variant", "on"])
    return steps.merge(before, on=["after_variant", "after_on", "n"])


def _evaluated(source: MeasuredSource, steps: pd.DataFrame) -> pd.DataFrame:
    rows = steps["after_row"], steps["row"]
    speedup = ratios(source.cells["total_s"], source.draws["total"], *rows)
    words = [verdict(*values) for values in zip(*speedup, strict=True)]
    steps = steps.assign(**bounded("speedup", *speedup), verdict=words)
    threads = (steps["threads"] / steps["after_threads"]).astype(float)
    same = steps["variant"] == steps["after_variant"]
    for name, efficiency in renaming("speedup", "efficiency").items():
        steps[efficiency] = (steps[name] / threads).where(same)
    return steps
