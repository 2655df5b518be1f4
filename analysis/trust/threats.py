"""Threats to the validity of the numbers, as far as the recordings themselves can tell of them."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from analysis.data.frames import from_rows
from analysis.domain import CPU
from analysis.schema import with_bounds

# An interval that reaches farther than this to either side of its median is called wide.
WIDE = 0.05


def threats_table(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return one row for each row of recordings.csv: what speaks against the numbers of a GPU.

    `frames` are the tables recordings, telemetry, summary and agreement. The CPU's totals count
    with each GPU of its host. share_clock_changed is how far a total moves at most without the samples
    taken while the GPU throttled; end_to_end_cells_wide have an interval that reaches farther than `WIDE`
    of the median; medians_reproduced of medians_compared agree with another recording of the same
    GPU model. What was not recorded is empty.
    """
    rows = []
    for _, subject in frames["recordings"].iterrows():
        own = frames["telemetry"]["gpu"] == subject["gpu"]
        rows.append(
            subject[["recording", "gpu", "cells_failed", "stale", "dirty", "simulated"]].to_dict()
            | _throttling(frames["telemetry"][own])
            | _intervals(frames["summary"], subject)
            | _agreement(frames["agreement"], subject)
        )
    return from_rows("threats", rows)


def _throttling(cells: pd.DataFrame) -> dict[str, object]:
    """Return what the rows of telemetry.csv of one GPU tell; nothing where there are none."""
    known = cells[cells["samples_throttled"].notna()]
    clocks = cells["sm_clock_hz"].dropna()
    moved = (cells["unthrottled_total_s"] / cells["total_s"] - 1).abs()
    found: dict[str, object] = {"share_clock_changed": moved.max()}
    if not known.empty:
        marked, samples = known["samples_throttled"].sum(), known["samples"].sum()
        found |= {"samples": samples, "samples_throttled": marked}
        found |= {"share_throttled": marked / samples}
    if not clocks.empty:
        found |= {"sm_clock_low_hz": clocks.min(), "sm_clock_high_hz": clocks.max()}
    return found


def _intervals(summary: pd.DataFrame, subject: pd.Series) -> dict[str, int]:
    """Return how many totals a GPU and its host's CPU have, without and with a wide interval."""
    own = (summary["gpu"] == subject["gpu"]) | (summary["device"] == CPU)
    own &= (summary["recording"] == subject["recording"]) & summary["total_s"].notna()
    median, low, high = (summary.loc[own, name].astype(float) for name in with_bounds("total_s"))
    reach = np.maximum(high - median, median - low) / median
    return {
        "end_to_end_cells": int(own.sum()),
        "end_to_end_cells_without_interval": int(low.isna().sum()),
        "end_to_end_cells_wide": int((reach > WIDE).sum()),
    }


def _agreement(agreement: pd.DataFrame, subject: pd.Series) -> dict[str, int]:
    """Return how many medians another recording of the same kind has too, and finds again."""
    label = subject["recording"] if pd.isna(subject["gpu"]) else subject["gpu"]
    sides = [
        agreement[f"gpu_{side}"].fillna(agreement[f"recording_{side}"]) == label for side in "ab"
    ]
    own = agreement[sides[0] | sides[1]]
    if own.empty:
        return {}
    return {
        "medians_compared": int(own["cells"].sum()),
        "medians_reproduced": int(own["cells_agreeing"].sum()),
    }
