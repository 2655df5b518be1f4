"""The steps of the CPU's ladder: what each gains over the step before, on one thread and on all."""

from dataclasses import dataclass

import pandas as pd

from analysis.cpu.cells import ALL, NAIVE, ONE, fastest, with_threads
from analysis.data.frames import stacked
from analysis.data.recordings import Source, once_a_recording
from analysis.domain import CPU, step_verdict
from analysis.schema import bounded, renaming
from analysis.stats.estimates import ratios


@dataclass(frozen=True)
class Step:
    """A variant on one thread or all, and what it is compared with."""

    variant: str
    threads: str
    after: str
    after_threads: str


STEPS = (
    Step("loop_order", ONE, NAIVE, ONE),
    Step("column_buffered", ONE, NAIVE, ONE),
    Step("blocked", ONE, "loop_order", ONE),
    Step("packed", ONE, "blocked", ONE),
    Step("blas", ONE, "packed", ONE),
    Step("packed", ALL, "packed", ONE),
    Step("blas", ALL, "blas", ONE),
    Step("blas", ALL, "packed", ALL),
)
_SIDE = ["variant", "block_size", "threads", "time_s"]


def cpu_ladder_table(found: list[Source]) -> pd.DataFrame:
    """Return one row a step, order and recording; each side with its fastest block size there.

    gain is the time of the step before over the step's own, with its interval from the draws of
    both medians; the verdict is that of `analysis.kernels.ladder`. efficiency, of steps from one
    thread of a variant to all: the gain over the number of threads.
    """
    frames = []
    for source, cells in once_a_recording((source, source.orders) for source in found):
        cpu = cells[cells["device"] == CPU]
        cpu = cpu.assign(row=cpu.index, time_s=cpu["total_s"])
        steps = pd.concat([_pairs(cpu, step) for step in STEPS], ignore_index=True)
        frames.append(_judged(source, steps).assign(recording=source.recording_id))
    return stacked("cpu_ladder", frames)


def _pairs(cpu: pd.DataFrame, step: Step) -> pd.DataFrame:
    """Return the cells of a step beside those of the step before, one pair an order."""
    sides = [
        fastest(cpu[with_threads(cpu, threads) & (cpu["variant"] == name)])[["n", *_SIDE, "row"]]
        for name, threads in ((step.variant, step.threads), (step.after, step.after_threads))
    ]
    before = sides[1].add_prefix("after_").rename(columns={"after_n": "n"})
    return sides[0].merge(before, on="n")


def _judged(source: Source, steps: pd.DataFrame) -> pd.DataFrame:
    """Return steps with their gain, verdict and, of one variant's, their efficiency."""
    bounds = ratios(
        source.cells["total_s"], source.draws["total"], steps["after_row"], steps["row"]
    )
    words = [step_verdict(*values) for values in zip(*bounds, strict=True)]
    steps = steps.assign(**bounded("gain", *bounds), verdict=words)
    threads = (steps["threads"] / steps["after_threads"]).astype(float)
    alike = steps["variant"] == steps["after_variant"]
    for gain, efficiency in renaming("gain", "efficiency").items():
        steps[efficiency] = (steps[gain] / threads).where(alike)
    return steps
