"""Overheads of timing, and the state of the GPU during measurement.

Each function returns one table of the schema. A CPU has a blank `gpu` and is listed once per
recording. Medians have distribution-free intervals, ratios bootstrap intervals: NaN below 6 values.
"""

import numpy as np
import pandas as pd

from analysis.data.frames import stacked
from analysis.data.recordings import MeasuredSource, labelled
from analysis.domain import CPU
from analysis.schema import bounded, renaming, with_bounds
from analysis.stats.estimates import FloatArray, Groups, drawn_cells, ratio_intervals
from measurement.recording.recording import CELL
from measurement.recording.throttling import THROTTLE_REASONS

TOTAL = "total"  # the sum of the parts of a run
WARM = "warm"
COLD_PARTS = ("init", "context", "module", "allocation", "h2d", "in_run_kernel", "d2h")
_RATIO = ["ratio", "ratio_low", "ratio_high"]


def _with_ratio(
    rows: pd.DataFrame, ratio: pd.Series, is_known: np.ndarray, above: FloatArray, below: FloatArray
) -> pd.DataFrame:
    """Return `rows` with ratio and interval; draws have one row per ratio that `is_known`."""
    rows = rows.assign(**dict.fromkeys(_RATIO, ratio))
    rows.loc[is_known, _RATIO[1:]] = np.transpose(ratio_intervals(above, below))
    return rows


def cold_starts_table(sources: list[MeasuredSource]) -> pd.DataFrame:
    """Return one row per part of a cold start (`COLD_PARTS`) and one for its total.

    A cold start lasts from the start of a process to its first product. Times are medians over the
    processes. `WARM` is the total of a warm run of the cell; ratio is the total over it.
    """
    gpus = (source for source in sources if source.device)
    return stacked("cold_starts", [labelled(source, _cold_starts(source)) for source in gpus])


def _cold_starts(source: MeasuredSource) -> pd.DataFrame:
    starts = source.own(source.recording.cold_starts)
    cells = Groups.of(starts, CELL)
    keys = cells.keys.assign(processes=cells.counts)
    parts = {
        part: keys.assign(**bounded("time_s", *cells.medians(starts[f"{part}_s"])))
        for part in (*COLD_PARTS, TOTAL)
    }
    warm = source.cells[[*CELL, *with_bounds("total_s")]].rename(
        columns=renaming("total_s", "time_s")
    )
    parts[WARM] = keys.merge(warm, how="left", on=CELL)
    is_known = parts[WARM]["time_s"].notna().to_numpy()
    runs = source.own(source.recording.samples).merge(keys[CELL], on=CELL)
    cold = drawn_cells(starts, "total_s", seed="cold")[is_known]
    ratio = parts[TOTAL]["time_s"] / parts[WARM]["time_s"]
    warm_draws = drawn_cells(runs, "total_s", seed="warm")
    parts[TOTAL] = _with_ratio(parts[TOTAL], ratio, is_known, cold, warm_draws)
    parts[WARM] = parts[WARM][is_known]
    return pd.concat([rows.assign(part=part) for part, rows in parts.items()], ignore_index=True)


def telemetry_table(sources: list[MeasuredSource]) -> pd.DataFrame:
    """Return the rows of `telemetry` for every GPU."""
    samples = ((source, source.own(source.recording.samples)) for source in sources)
    gpu = ((source, rows[rows["device"] != CPU]) for source, rows in samples)
    return stacked("telemetry", [labelled(source, telemetry(rows)) for source, rows in gpu])


def telemetry(samples: pd.DataFrame) -> pd.DataFrame:
    """Return one row per cell: the state of the GPU, and the times in seconds.

    throttle_reasons lists the reasons of all samples. Times are medians of all samples. Times named
    unthrottled are medians of samples without throttling, NaN without such samples or without
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
    seen = np.zeros(len(cells.keys), np.int64)
    np.bitwise_or.at(seen, cells.number, masks)
    return [" + ".join(why for bit, why in THROTTLE_REASONS.items() if mask & bit) for mask in seen]
