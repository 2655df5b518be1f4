"""State of a GPU during measurement: clocks, temperature, power, throttling."""

import numpy as np
import pandas as pd

from analysis.data.frames import stacked
from analysis.data.recordings import MeasuredSource, labelled
from analysis.domain import CPU
from analysis.schema import with_bounds
from analysis.stats.estimates import Groups
from measurement.recording.recording import CELL
from measurement.recording.throttling import THROTTLE_REASONS


def telemetry_table(found: list[MeasuredSource]) -> pd.DataFrame:
    """Return `telemetry` of every GPU."""
    own = ((source, source.own(source.recording.samples)) for source in found)
    gpu = ((source, rows[rows["device"] != CPU]) for source, rows in own)
    return stacked("telemetry", [labelled(source, telemetry(rows)) for source, rows in gpu])


def telemetry(samples: pd.DataFrame) -> pd.DataFrame:
    """Return the state of the GPU and its times in seconds, one row per cell.

    throttle_reasons lists the reasons of all samples. Times are medians of all samples; those
    named unthrottled are of samples without throttling, NaN without such samples or without
    telemetry. Blank: not recorded.
    """
    cells = Groups.of(samples, CELL)
    reasons = samples["throttle_reasons"]
    masks = reasons.fillna(0).to_numpy(dtype=np.int64)
    throttled = masks > 0
    recorded = cells.sums(reasons.notna()) > 0
    extremes = samples.groupby(cells.number)
    frame = cells.keys.assign(
        samples=cells.counts,
        samples_throttled=pd.array(cells.sums(throttled), "Int64"),
        throttle_reasons=_names(cells, masks),
        sm_clock_min_hz=extremes["sm_clock_hz"].min(),
        temperature_max_celsius=extremes["temperature_celsius"].max(),
    )
    frame.loc[~recorded, "samples_throttled"] = pd.NA
    for name in ("sm_clock_hz", "memory_clock_hz", "power_w"):
        frame[name] = cells.medians(samples[name], samples[name].notna())[0]
    for part in ("total", "in_run_kernel"):
        times = samples[f"{part}_s"]
        unthrottled = recorded[cells.number] & ~throttled
        frame[with_bounds(f"{part}_s")] = cells.medians(times).T
        frame[with_bounds(f"unthrottled_{part}_s")] = cells.medians(times, unthrottled).T
    return frame


def _names(cells: Groups, masks: np.ndarray) -> list[str]:
    """Return the reasons in the bit masks of each cell, joined by " + "."""
    every = np.zeros(len(cells.keys), np.int64)
    np.bitwise_or.at(every, cells.number, masks)
    return [
        " + ".join(name for bit, name in THROTTLE_REASONS.items() if mask & bit) for mask in every
    ]
