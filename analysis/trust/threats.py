"""Threats to validity that can be seen in the recordings themselves."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from analysis.data.frames import from_rows
from analysis.domain import CPU
from analysis.schema import with_bounds

WIDE = 0.05  # share of the median; an interval that extends further on either side is wide


def threats_table(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return one row per GPU (or host without GPU): counts of weaknesses of its numbers.

    `frames` contains recordings, telemetry and summary. End-to-end cells include cells of the
    host's CPU. throttling_shift is the largest change of an end-to-end median when throttled
    samples are dropped; end_to_end_cells_wide have an interval beyond `WIDE`. Blank: not recorded.
    """
    rows = []
    for _, subject in frames["recordings"].iterrows():
        of_gpu = frames["telemetry"]["gpu"] == subject["gpu"]
        rows.append(
            subject[["recording", "gpu", "cells_failed", "stale", "dirty", "simulated"]].to_dict()
            | _throttling(frames["telemetry"][of_gpu])
            | _intervals(frames["summary"], subject)
        )
    return from_rows("threats", rows)


def _throttling(cells: pd.DataFrame) -> dict[str, object]:
    recorded = cells[cells["samples_throttled"].notna()]
    clocks = cells["sm_clock_hz"].dropna()
    moved = (cells["unthrottled_total_s"] / cells["total_s"] - 1).abs()
    row: dict[str, object] = {"throttling_shift": moved.max()}
    if not recorded.empty:
        throttled, samples = recorded["samples_throttled"].sum(), recorded["samples"].sum()
        row |= {"samples": samples, "samples_throttled": throttled}
        row |= {"share_throttled": throttled / samples}
    if not clocks.empty:
        row |= {"sm_clock_low_hz": clocks.min(), "sm_clock_high_hz": clocks.max()}
    return row


def _intervals(summary: pd.DataFrame, subject: pd.Series) -> dict[str, int]:
    cells = (summary["gpu"] == subject["gpu"]) | (summary["device"] == CPU)
    cells &= (summary["recording"] == subject["recording"]) & summary["total_s"].notna()
    median, low, high = (summary.loc[cells, name].astype(float) for name in with_bounds("total_s"))
    half_width = np.maximum(high - median, median - low) / median
    return {
        "end_to_end_cells": int(cells.sum()),
        "end_to_end_cells_without_interval": int(low.isna().sum()),
        "end_to_end_cells_wide": int((half_width > WIDE).sum()),
    }
