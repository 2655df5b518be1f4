"""Medians with intervals, and bootstrap draws of medians and of ratios of medians.

A median has a distribution-free interval (order statistics). A quantity computed from several
medians (a speedup, a fitted parameter) has a percentile bootstrap interval.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import betainc, stdtrit

from analysis.schema import with_bounds
from base.intervals import interval_ranks, ranks_of_series, sign_correlation
from measurement.recording.recording import CELL

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]

CONFIDENCE = 0.95
DRAWS = 2000
SEED = 1

PARTS = ("total", "host", "h2d", "in_run_kernel", "d2h")


@dataclass(frozen=True)
class Groups:
    """Groups of rows: the sorted `keys` of the groups, and each row's group `number`, (rows,)."""

    keys: pd.DataFrame
    number: IntArray

    @classmethod
    def of(cls, frame: pd.DataFrame, by: list[str]) -> "Groups":
        """Return the groups of rows with equal (or equally missing) values in the columns `by`."""
        number = frame.groupby(by, dropna=False, sort=True).ngroup().to_numpy(dtype=np.intp)
        first = np.unique(number, return_index=True)[1]
        return cls(frame[by].iloc[first].reset_index(drop=True), number)

    @property
    def counts(self) -> IntArray:
        """The number of rows of each group."""
        return np.bincount(self.number, minlength=len(self.keys))

    def sums(self, values: npt.ArrayLike) -> IntArray:
        """Return the sum of whole numbers, or the number of true values, in each group."""
        weights = np.asarray(values, float)
        return np.bincount(self.number, weights, len(self.keys)).astype(np.intp)

    def names(self) -> list[tuple[object, ...]]:
        """Return the key of each group; a missing part of a key is None."""
        keys = self.keys.astype(object).where(self.keys.notna(), None)
        return list(keys.itertuples(index=False, name=None))

    def split(self, values: npt.ArrayLike) -> list[FloatArray]:
        """Return the values of each group, in the order of the rows."""
        ordered = np.asarray(values, float)[np.argsort(self.number, kind="stable")]
        return np.split(ordered, np.cumsum(self.counts)[:-1]) if len(self.keys) else []

    def medians(
        self, values: pd.Series, chosen: npt.ArrayLike = True, series: bool = False
    ) -> FloatArray:
        """Return medians of the `chosen` rows with their interval bounds, shape (3, groups).

        Values are NaN for a group without rows or with NaN; bounds are NaN below 6 rows. `series`:
        rows are in order of time, so bounds allow for correlation
        (`base.intervals.ranks_of_series`).
        """
        rows = np.broadcast_to(np.asarray(chosen, bool), self.number.shape)
        number = self.number[rows]
        numbers = values.to_numpy(dtype=float, na_value=np.nan)[rows]
        ordered = numbers[np.lexsort((numbers, number))]  # NaN is sorted to the end
        in_time = numbers[np.argsort(number, kind="stable")]
        counts = np.bincount(number, minlength=len(self.keys))
        starts = np.cumsum(counts) - counts
        bounds = np.full((3, len(counts)), np.nan)
        for count in np.unique(counts[counts > 0]):
            alike = counts == count
            positions = starts[alike][:, None] + np.arange(count)
            groups = ordered[positions]
            middle = (groups[:, (count - 1) // 2] + groups[:, count // 2]) / 2
            bounds[0, alike] = np.where(np.isnan(groups[:, -1]), np.nan, middle)
            ranks = interval_ranks(int(count), CONFIDENCE)
            if ranks is not None and series:
                correlation = sign_correlation(in_time[positions])
                lower = ranks_of_series(int(count), CONFIDENCE, correlation)
                rows_of = np.arange(len(groups))
                bounds[1:, alike] = groups[rows_of, [lower, count - 1 - lower]]
            elif ranks is not None:
                bounds[1:, alike] = groups[:, ranks].T
        return bounds

    def draws(self, times: pd.Series, seed: str, groups: Sequence[int] | None = None) -> FloatArray:
        """Return draws of the medians of `groups` (default: all) as `drawn_cells` does."""
        names, split = self.names(), self.split(times)
        chosen = range(len(names)) if groups is None else groups
        drawn = [drawn_medians(split[each], seeded(seed, *names[each])) for each in chosen]
        return np.array(drawn).reshape(-1, DRAWS)


def summarise(samples: pd.DataFrame) -> pd.DataFrame:
    """Return one row per cell: the number of samples, medians and 95 % intervals, in seconds.

    `samples` are of one session (several: `analysis.stats.sessions`), in order of time per cell,
    with the columns `CELL`, total_s, host_s, h2d_s, in_run_kernel_s and d2h_s. The result has
    `CELL`, samples, sessions (1), the median and bounds of each of these times, and overhead_s, the
    median of the total minus its parts; it is sorted by `CELL`. Bounds are NaN below 6 samples.
    host_s is NaN for runs without host work, all parts are NaN for CPU cells.
    """
    cells = Groups.of(samples, CELL)
    counts = cells.counts
    table = cells.keys.assign(
        samples=pd.array(counts, "Int64"), sessions=pd.array(np.ones_like(counts), "Int64")
    )
    for part in PARTS:
        table[with_bounds(f"{part}_s")] = cells.medians(samples[f"{part}_s"], series=True).T
    return table.assign(overhead_s=cells.medians(overheads(samples))[0])


def overheads(samples: pd.DataFrame) -> pd.Series:
    """Return the total of each sample minus its parts, in seconds."""
    parts = (samples[name] for name in ("h2d_s", "in_run_kernel_s", "d2h_s"))
    return samples["total_s"] - sum(parts, samples["host_s"].fillna(0))


def drawn_cells(
    samples: pd.DataFrame, column: str, by: Sequence[str] = CELL, seed: str | None = None
) -> FloatArray:
    """Return draws of the median of `column`, shape (cells, DRAWS).

    Row i belongs to row i of ``summarise(samples)``, or to group i of other columns `by`. The draws
    of a cell depend only on its samples, its key and `seed` (default: the column). Draws are NaN
    for a cell with NaN or with too few samples for an interval.
    """
    return Groups.of(samples, list(by)).draws(samples[column], seed or column)


def drawn_medians(values: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return DRAWS medians from the confidence distribution of the median of a 1-D sample.

    Whatever the distribution, the median is between the j-th and the next of n sorted values with
    the probability that j of n fair coins show heads. The percentiles of the draws therefore agree
    with `base.intervals.median_interval`. Between two values the draws are uniform; beyond the
    least and the largest they are these values. NaN below 6 values.
    """
    count = len(values)
    if interval_ranks(count, CONFIDENCE) is None or np.isnan(values).any():
        return np.full(DRAWS, np.nan)
    ordered = np.sort(values)
    bounds = np.concatenate([ordered[:1], ordered, ordered[-1:]])
    below = rng.binomial(count, 0.5, DRAWS)
    return bounds[below] + (bounds[below + 1] - bounds[below]) * rng.random(DRAWS)


def median_variance(values: FloatArray) -> FloatArray:
    """Return the bootstrap variances of the medians of samples, see `quantile_variance`."""
    return quantile_variance(values, 0.5)


def quantile_variance(values: FloatArray, quantile: float) -> FloatArray:
    """Return the bootstrap variances of a quantile along the last axis, without draws.

    The median of a resample is the i-th of the sorted values with the probability that a Beta
    variable is between (i−1)/n and i/n (Maritz and Jarrett, J. Am. Stat. Assoc. 73 (1978) 194).
    For the least value, quantile 0, this is exact. NaN below 6 values.
    """
    count = values.shape[-1]
    if interval_ranks(count, CONFIDENCE) is None:
        return np.full(values.shape[:-1], np.nan)
    ordered, weights = np.sort(values, axis=-1), _quantile_weights(count, quantile)
    mean = (ordered @ weights)[..., None]
    return np.asarray((ordered - mean) ** 2 @ weights)


@cache
def _quantile_weights(count: int, quantile: float) -> FloatArray:
    """Return the probability of each of `count` sorted values that it is a resample's quantile."""
    above, below = 1 + (count - 1) * quantile, 1 + (count - 1) * (1 - quantile)
    return np.diff(betainc(above, below, np.arange(count + 1) / count))


def bootstrap_paired_ratios(
    numerators: FloatArray, denominators: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Return DRAWS ratios of the medians of resampled pairs; both samples have shape (pairs,).

    Effects common to both samples of a pair (the state of the machine) cancel. NaN below 6 pairs.
    """
    count = len(numerators)
    if interval_ranks(count, CONFIDENCE) is None:
        return np.full(DRAWS, np.nan)
    chosen = rng.integers(count, size=(DRAWS, count))
    ratios: FloatArray = np.median(numerators[chosen], axis=1)
    return ratios / np.median(denominators[chosen], axis=1)


def ratio_intervals(above: FloatArray, below: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the percentile bounds of ratios, each (rows,), from draws of shape (rows, DRAWS)."""
    low, high = percentile_interval(above / below)
    return low, high


def ratios(
    medians: pd.Series, draws: FloatArray, above: pd.Series, below: pd.Series
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the ratios of the medians of pairs of cells, and the bounds of their intervals.

    `above` and `below` are indices in `medians` and rows of `draws`; NA gives NaN.
    """
    ratio, low, high = (np.full(len(below), np.nan) for _ in range(3))
    is_known = (above.notna().to_numpy()) & (below.notna().to_numpy())
    rows = [side.to_numpy()[is_known].astype(int) for side in (above, below)]
    times = [medians.loc[side].to_numpy(dtype=float) for side in rows]
    ratio[is_known] = times[0] / times[1]
    low[is_known], high[is_known] = ratio_intervals(draws[rows[0]], draws[rows[1]])
    return ratio, low, high


def quotients(above: FloatArray, below: FloatArray) -> FloatArray:
    """Return the ratios of independent times, with the bounds of their intervals.

    Each array has times and their bounds, shape (3, …). In logarithms, the squares of the distances
    to the bounds add up (Zou and Donner, Statistics in Medicine 27 (2008) 1693).
    """
    (top, top_low, top_high), (bottom, bottom_low, bottom_high) = np.log([above, below])
    down, up = (
        np.hypot(top - top_low, bottom_high - bottom),
        np.hypot(top_high - top, bottom - bottom_low),
    )
    return np.exp(top - bottom + np.array([np.zeros_like(down), -down, up]))


def percentile_interval(draws: FloatArray) -> FloatArray:
    """Return the bounds of the middle share CONFIDENCE of draws along the last axis: (2, …).

    Bounds are draws instead of interpolated values, because draws may be infinite, and because the
    bounds of a logarithm are then the logarithms of the bounds.
    """
    tail = (1 - CONFIDENCE) / 2
    positions = np.arange(draws.shape[-1])
    ranks = np.quantile(positions, [tail, 1 - tail], method="inverted_cdf")
    ordered = np.sort(draws, axis=-1)  # NaN is at the end; a full sort is faster than a partition
    bounds = np.where(np.isnan(ordered[..., -1:]), np.nan, ordered[..., ranks])
    return np.moveaxis(bounds, -1, 0)


def rms(errors: FloatArray) -> float:
    """Return the root mean square; NaN without values."""
    return float(np.sqrt(np.mean(errors**2))) if len(errors) else float("nan")


def conformal(errors: FloatArray) -> float:
    """Return the half-width of a 95 % prediction interval from leave-one-out errors.

    For m errors, it is the ⌈0.95·(m + 1)⌉-th smallest magnitude (conformal; Barber et al., Ann.
    Stat. 49 (2021) 486); for fewer than 19 errors, it is Student's quantile times their root mean
    square; infinite without errors.
    """
    rank = int(np.ceil(CONFIDENCE * (len(errors) + 1)))
    if rank <= len(errors):
        return float(np.sort(np.abs(errors))[rank - 1])
    if not len(errors):
        return float("inf")
    return float(stdtrit(len(errors), (1 + CONFIDENCE) / 2)) * rms(errors)


def seeded(*key: object) -> np.random.Generator:
    """Return a random generator that depends only on `key`."""
    text = "\x1f".join(str(part) for part in (SEED, *key))
    return np.random.default_rng(int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big"))


def grouped(
    frame: pd.DataFrame, by: list[str]
) -> Iterator[tuple[tuple[object, ...], pd.DataFrame]]:
    """Yield (key, rows) of every group, sorted by key; missing parts of a key are None."""
    for key, rows in frame.groupby(by, dropna=False, sort=True):
        yield tuple(None if part is pd.NA or part != part else part for part in key), rows
