"""Medians, their intervals, and bootstrap draws of medians and of ratios of medians.

Two kinds of interval are used. A median's own is distribution-free (order statistics). A quantity
computed from several medians (a gain, a fitted parameter) has a percentile bootstrap interval.
"""

import hashlib
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pandas as pd

from measurement.intervals import interval_ranks, median_interval
from measurement.recording import CELL

FloatArray = npt.NDArray[np.float64]

CONFIDENCE = 0.95
DRAWS = 2000
SEED = 1

_PARTS = ("total", "host", "h2d", "kernel", "d2h")
TIME_COLUMNS = [f"{part}{bound}_s" for part in _PARTS for bound in ("", "_low", "_high")]


def summarise(samples: pd.DataFrame) -> pd.DataFrame:
    """Return one row a cell: the number of samples, medians and their 95 % intervals, in seconds.

    `samples` has the columns `CELL`, total_s, host_s, h2d_s, kernel_s, d2h_s. The result has
    `CELL`, samples, total_s, total_low_s, total_high_s, the same of the four parts, and overhead_s
    (median of what the parts leave of the total). Rows are sorted by `CELL`. Bounds are NaN below 6
    samples; host_s is NaN where the host does nothing but copy, and all parts are of a CPU cell.
    """
    rows = []
    for key, cell in grouped(samples, CELL):
        row: dict[str, object] = dict(zip(CELL, key, strict=True)) | {"samples": len(cell)}
        for part in _PARTS:
            interval = median_interval(cell[f"{part}_s"].to_numpy(), CONFIDENCE)
            names = (f"{part}_s", f"{part}_low_s", f"{part}_high_s")
            row |= dict(zip(names, interval, strict=True))
        parts = cell["host_s"].fillna(0) + cell["h2d_s"] + cell["kernel_s"] + cell["d2h_s"]
        overhead = cell["total_s"] - parts
        rows.append(row | {"overhead_s": float(np.median(overhead.to_numpy()))})
    columns = [*CELL, "samples", *TIME_COLUMNS, "overhead_s"]
    types = samples[CELL].dtypes.to_dict() | {"samples": "Int64"}
    return pd.DataFrame(rows, columns=columns).astype(types)


def bootstrap_cells(samples: pd.DataFrame, column: str) -> FloatArray:
    """Return bootstrap draws of the median of `column`, shape (cells, DRAWS).

    Row i belongs to row i of ``summarise(samples)``. A cell's draws depend on its own samples and
    its key alone, not on the order of rows or on other cells. NaN where a cell has too few samples
    for an interval, or NaN among them.
    """
    draws = [
        bootstrap_medians(cell[column].to_numpy(), seeded(column, *key))
        for key, cell in grouped(samples, CELL)
    ]
    return np.array(draws).reshape(-1, DRAWS)


def bootstrap_medians(values: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return DRAWS medians of resamples (with replacement) of a 1-D sample.

    A resample of size m, sorted, is the sorted sample at the indices floor(m·U) of m sorted uniform
    numbers, so its middle is drawn directly: U_(k) is Beta(k, m+1−k), and above U_(k) = u the least
    of the m−k numbers left is u + (1−u)·(1 − V^(1/(m−k))), V uniform. NaN below 6 values.
    """
    count = len(values)
    if interval_ranks(count, CONFIDENCE) is None or np.isnan(values).any():
        return np.full(DRAWS, np.nan)
    ordered = np.sort(values)
    middle = (count + 1) // 2
    lower = rng.beta(middle, count + 1 - middle, DRAWS)
    if count % 2:
        return ordered[_index(lower, count)]
    upper = 1 - (1 - lower) * rng.random(DRAWS) ** (1 / (count - middle))
    return (ordered[_index(lower, count)] + ordered[_index(upper, count)]) / 2


def bootstrap_paired_ratios(
    numerators: FloatArray, denominators: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Return DRAWS ratios of the medians of resampled pairs; both samples have shape (pairs,).

    What both of a pair have in common, such as the state of the machine, leaves the ratio. NaN
    below 6 pairs.
    """
    count = len(numerators)
    if interval_ranks(count, CONFIDENCE) is None:
        return np.full(DRAWS, np.nan)
    chosen = rng.integers(count, size=(DRAWS, count))
    ratios: FloatArray = np.median(numerators[chosen], axis=1)
    return ratios / np.median(denominators[chosen], axis=1)


def ratio_intervals(
    numerators: FloatArray, denominators: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the percentile bounds of ratios, each (rows,), from draws of shape (rows, DRAWS)."""
    low, high = percentile_interval(numerators / denominators)
    return low, high


def ratios(
    medians: pd.Series, draws: FloatArray, above: pd.Series, below: pd.Series
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the ratios of the medians of pairs of cells, and the bounds of their intervals.

    `above` and `below` name the cells by their index in `medians`, which is also their row in
    `draws`; NA: there is none, and the ratio is NaN.
    """
    ratio, low, high = (np.full(len(below), np.nan) for _ in range(3))
    known = (above.notna().to_numpy()) & (below.notna().to_numpy())
    rows = [side.to_numpy()[known].astype(int) for side in (above, below)]
    times = [medians.loc[side].to_numpy(dtype=float) for side in rows]
    ratio[known] = times[0] / times[1]
    low[known], high[known] = ratio_intervals(draws[rows[0]], draws[rows[1]])
    return ratio, low, high


def percentile_interval(draws: FloatArray) -> FloatArray:
    """Return the bounds with (1 − CONFIDENCE)/2 of the last axis on either side, shape (2, …).

    They are values of the draws, not between two of them: draws may be infinite, and the bounds of
    a logarithm are the logarithms of the bounds.
    """
    tail = (1 - CONFIDENCE) / 2
    return np.quantile(draws, [tail, 1 - tail], axis=-1, method="inverted_cdf")


def seeded(*key: object) -> np.random.Generator:
    """Return a random generator for `key`, the same on every machine and in any order of calls."""
    text = "\x1f".join(str(part) for part in (SEED, *key))
    return np.random.default_rng(int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big"))


def _index(uniform: FloatArray, count: int) -> npt.NDArray[np.intp]:
    """Return which of `count` equal parts of [0, 1] holds each number (1 itself: the last)."""
    return np.minimum((uniform * count).astype(np.intp), count - 1)


def grouped(
    frame: pd.DataFrame, by: list[str]
) -> Iterator[tuple[tuple[object, ...], pd.DataFrame]]:
    """Yield (key, rows) of every group, sorted by key; a missing part of a key is None."""
    for key, rows in frame.groupby(by, dropna=False, sort=True):
        yield tuple(None if part is pd.NA or part != part else part for part in key), rows
