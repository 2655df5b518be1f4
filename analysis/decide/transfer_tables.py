"""Measured copies, and the transfer model fitted to them.

The model is fitted to the copies of end-to-end runs on square float32 matrices (two copies in, one
back), and to single copies from untouched buffers. The time of a run beyond copies and kernel
(``overhead``) is fitted with the same model. Held-out sizes are excluded.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtri, stdtrit

from analysis.data.cells import is_square
from analysis.data.frames import stacked
from analysis.data.recordings import MeasuredSource, with_gpu
from analysis.decide.lookup import ELEMENT_BYTES
from analysis.decide.predictors import MATRICES, Copies
from analysis.decide.transfers import KNEE, LINE, PARAMETERS, Points, fit, interval, leave_one_out
from analysis.domain import CPU
from analysis.schema import TABLES, bounded, interval_columns
from analysis.stats.estimates import CONFIDENCE, FloatArray, grouped, rms
from base.intervals import median_interval

END_TO_END, SINGLE = "end-to-end runs", "single copies"
_GROUP = ["recording", "gpu", "host_memory", "direction", "data"]
_LEAST_SIZES = {LINE: 3, KNEE: 6}
_BETTER = 0.8  # a knee is used if its leave-one-out error is below this share of the line's
_LEAST_SHARE = 1e-6  # if bytes take less of a copy's time, no bandwidth is fitted
_CEILINGS = {"h2d": "h2d_bytes_per_s", "d2h": "d2h_bytes_per_s"}
_UPPER = (1 + CONFIDENCE) / 2


def transfer_tables(sources: list[MeasuredSource]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the tables transfers (the fits) and transfer_points (the copies).

    log_rms: the root mean square log error at the fitted sizes; left_out_log_rms: that of
    leave-one-out predictions. half_width: that of a 95 % prediction interval for one cell, from
    left_out_log_rms and the spread of the cells of one size. used: whether predictions use the fit.
    The model with a knee is used if its leave-one-out error is clearly lower, otherwise the line.
    """
    fits, copies = [], []
    for source in with_gpu(sources):
        points = points_table(source)
        for key, group in grouped(points, _GROUP):
            rows = pd.DataFrame(_fits(group))
            fits.append(rows.assign(**dict(zip(_GROUP, key, strict=True))))
        copies.append(points)
    return stacked("transfers", fits), stacked("transfer_points", copies)


def _fits(group: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the fits of both models to one group of points."""
    points, unseen = (_points(group[group["holdout"] == held]) for held in (False, True))
    of_runs = group["data"].iloc[0] == END_TO_END
    rows = []
    for model in (LINE, KNEE) if of_runs else (LINE,):
        if len(points.time_s) >= _LEAST_SIZES[model]:
            best = fit(points, model)
            row = _row(points, model, best, group["cells_log_sd"])
            row["holdout_sizes"] = len(unseen.time_s)
            rows.append(row | {"holdout_log_rms": rms(unseen.log_ratios(best))})
    used = _used(rows)
    return [row | {"used": of_runs and row["model"] == used} for row in rows]


def _row(points: Points, model: str, best: Copies, spreads: pd.Series) -> dict[str, Any]:
    """Return the row of one fit; `spreads` has the spread over the cells of each size."""
    errors = rms(leave_one_out(points, best))
    spread = float(np.sqrt(np.nanmean(spreads.astype(float) ** 2))) if spreads.notna().any() else 0
    degrees_of_freedom = len(points.time_s) - PARAMETERS[model]
    width = np.hypot(stdtrit(degrees_of_freedom, _UPPER) * errors, ndtri(_UPPER) * spread)
    row: dict[str, Any] = {"model": model, "sizes": len(points.time_s)}
    bandwidth = _bandwidth(best, points.size_bytes.max())
    row |= {"latency_s": best.latency_s, "bytes_per_s": bandwidth, "half_width": float(width)}
    row |= {"log_rms": rms(points.log_ratios(best)), "left_out_log_rms": errors}
    if model == KNEE:
        return row | {"knee_bytes": best.knee_bytes, "beyond_bytes_per_s": best.beyond_bytes_per_s}
    for name in ("latency_s", "bytes_per_s"):
        row |= bounded(name, getattr(best, name), *interval(points, best, name))
    return row


def _bandwidth(best: Copies, most_bytes: float) -> float:
    """Return the fitted bandwidth; NaN if none is fitted, because the bytes take no time."""
    bytes_s = min(best.knee_bytes, most_bytes) / best.bytes_per_s
    return best.bytes_per_s if bytes_s > _LEAST_SHARE * best.latency_s else float("nan")


def _used(rows: Iterable[dict[str, Any]]) -> str | None:
    """Return which model predictions use, from the rows of a group's fits."""
    errors = {row["model"]: row["left_out_log_rms"] for row in rows}
    if KNEE in errors and errors[KNEE] < _BETTER * errors[LINE]:
        return KNEE
    return LINE if errors else None


def _points(group: pd.DataFrame) -> Points:
    size, time_s = (group[name].to_numpy(dtype=float) for name in ("size_bytes", "copy_s"))
    return Points(int(group["copies"].iloc[0]) if len(group) else 1, size, time_s)


def points_table(source: MeasuredSource) -> pd.DataFrame:
    """Return one row per group of copies of a GPU, for the table transfer_points.

    A row of end-to-end runs is the median over the cells' medians at one size, with cells_log_sd; a
    row of single copies is the median over the rounds of one size.
    """
    rows = []
    for (memory, n), cells in run_cells(source).groupby(["host_memory", "n"], sort=True):
        for direction, (copies, matrices) in MATRICES.items():
            row = _of_cells(cells, direction)
            row |= {"host_memory": memory, "direction": direction, "data": END_TO_END, "n": int(n)}
            row |= {"holdout": int(n) in source.holdout_sizes, "copies": copies}
            rows.append(row | {"size_bytes": matrices * ELEMENT_BYTES * int(n) ** 2})
    ceilings = source.own(source.recording.ceilings)
    for direction, quantity in _CEILINGS.items():
        copied = ceilings[ceilings["quantity"] == quantity]
        for (memory, size), rounds in copied.groupby(["host_memory", "size_bytes"], sort=True):
            row = _median(int(size) / rounds["value"].to_numpy(dtype=float))
            row |= {"host_memory": memory, "direction": direction, "data": SINGLE, "copies": 1}
            rows.append(row | {"size_bytes": int(size), "holdout": False})
    frame = pd.DataFrame(rows, columns=[*TABLES["transfer_points"].columns, "cells_log_sd"])
    return frame.assign(recording=source.recording_id, gpu=source.label)


def run_cells(source: MeasuredSource) -> pd.DataFrame:
    """Return the GPU's cells of square float32 matrices without work on the host."""
    cells = source.cells[source.cells["device"] != CPU]
    plain = cells["host_s"].isna() & (cells["dtype"] == "float32") & cells["h2d_s"].notna()
    return cells[is_square(cells) & plain & (cells["overhead_s"] > 0)]


def _of_cells(cells: pd.DataFrame, direction: str) -> dict[str, Any]:
    """Return the median over cells of one part of their times, and its spread."""
    values = cells[f"{direction}_s"].to_numpy(dtype=float)
    row = _median(values)
    if len(values) > 1:
        row["cells_log_sd"] = float(np.std(np.log(values), ddof=1))
    elif direction != "overhead":
        bounds = cells[list(interval_columns(f"{direction}_s"))].iloc[0]
        row |= dict(zip(interval_columns("copy_s"), bounds, strict=True))
    return row


def _median(values: FloatArray) -> dict[str, Any]:
    return bounded("copy_s", *median_interval(values, CONFIDENCE))
